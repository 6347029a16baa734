// Whole numbers and fractions that throw instead of wrapping around.
#pragma once

#include <cstdint>
#include <numeric>

#include "error.h"

namespace taf {

inline int64_t Add(int64_t a, int64_t b) {
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum)) {
        throw Error("a size does not fit in 64 bits");
    }
    return sum;
}

inline int64_t Sub(int64_t a, int64_t b) {
    int64_t difference;
    if (__builtin_sub_overflow(a, b, &difference)) {
        throw Error("a size does not fit in 64 bits");
    }
    return difference;
}

inline int64_t Mul(int64_t a, int64_t b) {
    int64_t product;
    if (__builtin_mul_overflow(a, b, &product)) {
        throw Error("a size does not fit in 64 bits");
    }
    return product;
}

// Rounds down, as Python does.
inline int64_t FloorDiv(int64_t a, int64_t b) {
    if (b == 0) {
        throw Error("a size is divided by zero");
    }
    if (b == -1) {
        return Sub(0, a);
    }
    return a / b - (a % b != 0 && (a % b < 0) != (b < 0) ? 1 : 0);
}

inline int64_t FloorMod(int64_t a, int64_t b) {
    return b == -1 ? 0 : Sub(a, Mul(FloorDiv(a, b), b));
}

// A fraction in lowest terms, its denominator positive.
struct Fraction {
    int64_t over = 0;
    int64_t under = 1;
};

inline Fraction Reduced(int64_t over, int64_t under) {
    if (over == INT64_MIN) {  // has no absolute value
        throw Error("a size does not fit in 64 bits");
    }
    const int64_t common = std::gcd(over, under);
    return {over / common, under / common};
}

inline Fraction operator+(Fraction a, Fraction b) {
    return Reduced(Add(Mul(a.over, b.under), Mul(b.over, a.under)), Mul(a.under, b.under));
}
inline Fraction operator-(Fraction a) {
    return {Sub(0, a.over), a.under};
}
inline Fraction operator-(Fraction a, Fraction b) {
    return a + -b;
}
inline Fraction operator*(Fraction a, Fraction b) {
    return Reduced(Mul(a.over, b.over), Mul(a.under, b.under));
}
inline bool operator<(Fraction a, Fraction b) {
    return Mul(a.over, b.under) < Mul(b.over, a.under);
}
inline Fraction Floor(Fraction a) {
    return {FloorDiv(a.over, a.under), 1};
}
inline Fraction Quotient(Fraction a, Fraction b) {
    if (b.over == 0) {
        throw Error("a size is divided by zero");
    }
    return b.over < 0 ? Reduced(Mul(-a.over, b.under), Mul(a.under, -b.over))
                      : Reduced(Mul(a.over, b.under), Mul(a.under, b.over));
}

}  // namespace taf
