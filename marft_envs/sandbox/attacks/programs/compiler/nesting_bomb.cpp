// Brackets deeper than the parser's stack.
int main() { return @REPEAT:15000:(@0@REPEAT:15000:)@; }
