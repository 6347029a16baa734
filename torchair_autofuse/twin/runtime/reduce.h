// Values of reductions of any element type, and the tree that combines them.
#pragma once

#include <vector>

#include "lanes.h"

namespace tw {

struct Value {  // of any element type: floats in f, integers in i
    float f = 0;
    int64_t i = 0;
    bool tainted = false;
    uint32_t index = 0;
};

inline bool is_float(DT dt) {
    return dt == F32 || dt == F16 || dt == BF16;
}

template <typename T>
T get(const uint8_t* p) {
    T v;
    memcpy(&v, p, sizeof(T));
    return v;
}

inline Value load(DT dt, const uint8_t* p) {
    Value v;
    switch (dt) {
        case F32:
        case F16:
        case BF16: load_floats(dt, p, &v.f, 1); break;
        case I8: v.i = get<int8_t>(p); break;
        case U8: v.i = get<uint8_t>(p); break;
        case I16: v.i = get<int16_t>(p); break;
        case U16: v.i = get<uint16_t>(p); break;
        case I32: v.i = get<int32_t>(p); break;
        case U32: v.i = get<uint32_t>(p); break;
        default: v.i = get<int64_t>(p); break;
    }
    return v;
}

inline void store(DT dt, uint8_t* p, const Value& v) {
    if (is_float(dt)) {
        store_floats(dt, &v.f, p, 1);
    } else {
        memcpy(p, &v.i, dt_size(dt));
    }
}

inline float round_to(DT dt, float v) {
    if (dt == F32) {
        return v;
    }
    uint16_t h;
    store_floats(dt, &v, &h, 1);
    load_floats(dt, &h, &v, 1);
    return v;
}

inline Value merge(DT dt, Red red, const Value& a, const Value& b) {
    Value r;
    if (red == Red::Sum) {
        if (is_float(dt)) {
            r.f = round_to(dt, a.f + b.f);
        } else {
            r.i = static_cast<int64_t>(static_cast<uint64_t>(a.i) + static_cast<uint64_t>(b.i));
        }
    } else {
        bool take_b;
        if (is_float(dt)) {  // NaN wins, then the extremum, then the lower index
            bool an = a.f != a.f, bn = b.f != b.f;
            take_b = !an && (bn || (red == Red::Max ? b.f > a.f : b.f < a.f));
        } else if (dt == U64) {
            uint64_t x = static_cast<uint64_t>(a.i), y = static_cast<uint64_t>(b.i);
            take_b = red == Red::Max ? y > x : y < x;
        } else {
            take_b = red == Red::Max ? b.i > a.i : b.i < a.i;
        }
        r = take_b ? b : a;
    }
    r.tainted = a.tainted || b.tainted;
    return r;
}

// Binary tree over neighbours; absent lanes are skipped, as if they held the identity.
inline Value tree(DT dt, Red red, std::vector<Value> v, std::vector<bool> on, bool& any) {
    size_t n = v.size();
    while (n > 1) {
        size_t half = (n + 1) / 2;
        for (size_t i = 0; i < half; ++i) {
            size_t a = 2 * i, b = a + 1;
            if (b < n && on[b]) {
                v[i] = on[a] ? merge(dt, red, v[a], v[b]) : v[b];
                on[i] = true;
            } else {
                v[i] = v[a];
                on[i] = on[a];
            }
        }
        n = half;
    }
    any = !v.empty() && on[0];
    return v.empty() ? Value{} : v[0];
}

inline Value identity(DT dt, Red red) {
    Value v;
    if (is_float(dt) && red != Red::Sum) {
        v.f = red == Red::Max ? -__builtin_inff() : __builtin_inff();
    }
    return v;
}

inline void put(Core& c, DT dt, uint32_t at, const Value& v) {
    store(dt, c.ub + at, v);
    c.set_taint(at, dt_size(dt), v.tainted);
}

}  // namespace tw
