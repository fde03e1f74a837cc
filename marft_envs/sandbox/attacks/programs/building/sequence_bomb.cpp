// A list of ten million numbers that a builtin of the compiler lays out.
#include <utility>
template <int... numbers> constexpr int count(std::integer_sequence<int, numbers...>) { return sizeof...(numbers); }
int main() { return count(std::make_integer_sequence<int, 10000000>()); }
