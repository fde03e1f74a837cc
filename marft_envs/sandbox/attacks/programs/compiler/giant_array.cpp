// A source of a hundred bytes, a program of two gigabytes.
int array[1 << 29] = {1};
int main() { return array[1]; }
