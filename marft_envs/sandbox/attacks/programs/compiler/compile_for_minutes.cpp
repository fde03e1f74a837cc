// Brackets so deep that the compiler needs minutes.
int main() { return @REPEAT:200000:(@0@REPEAT:200000:)@; }
