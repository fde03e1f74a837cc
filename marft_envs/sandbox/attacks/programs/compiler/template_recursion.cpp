// A template that needs itself, deeper and deeper.
template <int N>
struct Deep {
    static constexpr long value = Deep<N + 1>::value + Deep<N + 2>::value;
};
int main() { return Deep<0>::value; }
