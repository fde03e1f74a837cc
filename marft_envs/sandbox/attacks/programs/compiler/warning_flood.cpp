// A flood of messages from the compiler.
@REPEAT:3000:#warning aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
@int main() {}
