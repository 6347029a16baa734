// half and bfloat16 conversions with IEEE round to nearest even.
#include "lanes.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace tw {

extern "C" {

float twin_h2f(uint16_t h) {
    uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16, exp = h >> 10 & 31, frac = h & 1023, w;
    if (exp == 31) {
        w = sign | 0x7f800000u | frac << 13 | (frac ? 0x400000u : 0);
    } else if (exp != 0) {
        w = sign | (exp + 112) << 23 | frac << 13;
    } else {
        float f = static_cast<float>(frac) * 0x1p-24f;
        memcpy(&w, &f, 4);
        w |= sign;
    }
    float f;
    memcpy(&f, &w, 4);
    return f;
}

uint16_t twin_f2h(float value) {
    uint32_t w;
    memcpy(&w, &value, 4);
    uint32_t sign = w >> 16 & 0x8000, mag = w & 0x7fffffff;
    if (mag > 0x7f800000u) {
        return static_cast<uint16_t>(sign | 0x7e00 | (mag >> 13 & 0x3ff));
    }
    if (mag >= 0x477ff000u) {  // rounds to infinity
        return static_cast<uint16_t>(sign | 0x7c00);
    }
    if (mag < 0x38800000u) {  // subnormal or zero: add at a scale where the float's last bit is the half's
        float f;
        memcpy(&f, &mag, 4);
        f += 0.5f;
        uint32_t r;
        memcpy(&r, &f, 4);
        return static_cast<uint16_t>(sign | (r - 0x3f000000u));
    }
    uint32_t odd = mag >> 13 & 1;
    return static_cast<uint16_t>(sign | ((mag + 0xfff + odd - 0x38000000u) >> 13));
}

uint16_t twin_d2h(double value) {
    float f = static_cast<float>(value);
    if (static_cast<double>(f) != value && value == value) {  // round to odd, so that the second rounding is right
        uint32_t w;
        memcpy(&w, &f, 4);
        bool grew = (f < 0 ? -static_cast<double>(f) : f) > (value < 0 ? -value : value);
        w -= grew ? 1 : 0;
        w |= 1;
        memcpy(&f, &w, 4);
    }
    return twin_f2h(f);
}

uint16_t twin_f2b(float value) {
    uint32_t w;
    memcpy(&w, &value, 4);
    if ((w & 0x7fffffff) > 0x7f800000u) {
        return static_cast<uint16_t>(w >> 16 | 0x40);
    }
    return static_cast<uint16_t>((w + 0x7fff + (w >> 16 & 1)) >> 16);
}

}  // extern "C"

void h2f_n(const uint16_t* from, float* to, int64_t n) {
    int64_t i = 0;
#if defined(__F16C__)
    for (; i + 8 <= n; i += 8) {
        _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
    }
#endif
    for (; i < n; ++i) {
        to[i] = twin_h2f(from[i]);
    }
}

void f2h_n(const float* from, uint16_t* to, int64_t n) {
    int64_t i = 0;
#if defined(__F16C__)
    for (; i + 8 <= n; i += 8) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
    }
#endif
    for (; i < n; ++i) {
        to[i] = twin_f2h(from[i]);
    }
}

void b2f_n(const uint16_t* from, float* to, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
        uint32_t w = static_cast<uint32_t>(from[i]) << 16;
        memcpy(to + i, &w, 4);
    }
}

void f2b_n(const float* from, uint16_t* to, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
        to[i] = twin_f2b(from[i]);
    }
}

void load_floats(DT dt, const void* from, float* to, int64_t n) {
    if (dt == F16) {
        h2f_n(static_cast<const uint16_t*>(from), to, n);
    } else if (dt == BF16) {
        b2f_n(static_cast<const uint16_t*>(from), to, n);
    } else {
        memcpy(to, from, static_cast<size_t>(n) * 4);
    }
}

void store_floats(DT dt, const float* from, void* to, int64_t n) {
    if (dt == F16) {
        f2h_n(from, static_cast<uint16_t*>(to), n);
    } else if (dt == BF16) {
        f2b_n(from, static_cast<uint16_t*>(to), n);
    } else {
        memcpy(to, from, static_cast<size_t>(n) * 4);
    }
}

}  // namespace tw
