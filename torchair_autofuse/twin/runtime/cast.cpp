// Cast between element types with the chip's round modes.
#include <cmath>
#include <limits>

#include "lanes.h"

namespace tw {

namespace {

enum Mode { NONE, RINT, FLOOR, CEIL, ROUND, TRUNC, ODD };
const char* const kModeNames[] = {"CAST_NONE", "CAST_RINT", "CAST_FLOOR", "CAST_CEIL", "CAST_ROUND", "CAST_TRUNC", "CAST_ODD"};

long double load(DT dt, const uint8_t* p) {
    switch (dt) {
        case F32: { float v; memcpy(&v, p, 4); return v; }
        case F16: { uint16_t v; memcpy(&v, p, 2); return twin_h2f(v); }
        case BF16: { uint16_t v; memcpy(&v, p, 2); float f; b2f_n(&v, &f, 1); return f; }
        case I8: return static_cast<int8_t>(*p);
        case U8: return *p;
        case I16: { int16_t v; memcpy(&v, p, 2); return v; }
        case U16: { uint16_t v; memcpy(&v, p, 2); return v; }
        case I32: { int32_t v; memcpy(&v, p, 4); return v; }
        case U32: { uint32_t v; memcpy(&v, p, 4); return v; }
        case I64: { int64_t v; memcpy(&v, p, 8); return static_cast<long double>(v); }
        default: { uint64_t v; memcpy(&v, p, 8); return static_cast<long double>(v); }
    }
}

// Rounds to an integral value.
long double integral(long double v, int mode) {
    switch (mode) {
        case FLOOR: return std::floor(v);
        case CEIL: return std::ceil(v);
        case ROUND: return std::round(v);
        case TRUNC: return std::trunc(v);
        default: {  // half to even
            long double f = std::floor(v), d = v - f;
            if (d > 0.5L || (d == 0.5L && std::fmod(f, 2.0L) != 0)) {
                f += 1;
            }
            return f == 0 ? std::copysign(0.0L, v) : f;
        }
    }
}

// A sign-magnitude float format given by its bits: value of a pattern and the nearest pattern below or at |v|.
struct Format {
    DT dt;
    long double value(uint32_t magnitude) const {
        if (dt == F16) {
            return twin_h2f(static_cast<uint16_t>(magnitude));
        }
        uint32_t w = dt == BF16 ? magnitude << 16 : magnitude;
        float f;
        memcpy(&f, &w, 4);
        return f;
    }
    uint32_t infinity() const { return dt == F16 ? 0x7c00 : dt == BF16 ? 0x7f80 : 0x7f800000u; }
    uint32_t sign() const { return dt == F32 ? 0x80000000u : 0x8000; }
};

uint32_t to_float_bits(DT dt, long double v, int mode) {
    Format f{dt};
    bool negative = std::signbit(v);
    uint32_t sign = negative ? f.sign() : 0;
    if (v != v) {
        return f.infinity() | (dt == F16 ? 0x200 : dt == BF16 ? 0x40 : 0x400000);
    }
    long double m = std::fabs(v);
    if (std::isinf(v)) {
        return sign | f.infinity();
    }
    uint32_t low = 0, high = f.infinity();  // largest pattern whose value is <= m
    while (low + 1 < high) {
        uint32_t mid = low + (high - low) / 2;
        (f.value(mid) <= m ? low : high) = mid;
    }
    long double below = f.value(low), rest = m - below;
    if (rest == 0) {
        return sign | low;
    }
    long double gap = high == f.infinity() ? below - f.value(low - 1) : f.value(high) - below;
    bool up = false;
    switch (mode) {
        case FLOOR: up = negative; break;
        case CEIL: up = !negative; break;
        case TRUNC: break;
        case ODD: up = !(low & 1); break;
        case ROUND: up = rest * 2 >= gap; break;
        default: up = rest * 2 > gap || (rest * 2 == gap && (low & 1)); break;
    }
    return sign | (up ? high : low);
}

template <typename T>
void put_int(uint8_t* p, long double v) {
    T out;
    if (v != v) {
        out = 0;
    } else if (v <= static_cast<long double>(std::numeric_limits<T>::min())) {
        out = std::numeric_limits<T>::min();
    } else if (v >= static_cast<long double>(std::numeric_limits<T>::max())) {
        out = std::numeric_limits<T>::max();
    } else {
        out = static_cast<T>(v);
    }
    memcpy(p, &out, sizeof(T));
}

void store(DT dt, uint8_t* p, long double v, int mode) {
    switch (dt) {
        case F32: { uint32_t w = to_float_bits(dt, v, mode); memcpy(p, &w, 4); return; }
        case F16:
        case BF16: { uint16_t w = static_cast<uint16_t>(to_float_bits(dt, v, mode)); memcpy(p, &w, 2); return; }
        default: break;
    }
    v = integral(v, mode);
    switch (dt) {
        case I8: put_int<int8_t>(p, v); return;
        case U8: put_int<uint8_t>(p, v); return;
        case I16: put_int<int16_t>(p, v); return;
        case U16: put_int<uint16_t>(p, v); return;
        case I32: put_int<int32_t>(p, v); return;
        case U32: put_int<uint32_t>(p, v); return;
        case I64: put_int<int64_t>(p, v); return;
        default: put_int<uint64_t>(p, v); return;
    }
}

template <typename D, typename S, typename F>
void each(void* d, const void* s, int64_t n, F f) {
    D* o = static_cast<D*>(d);
    const S* x = static_cast<const S*>(s);
    for (int64_t i = 0; i < n; ++i) {
        o[i] = f(x[i]);
    }
}

float round_f32(float v, int mode) {
    switch (mode) {
        case FLOOR: return std::floor(v);
        case CEIL: return std::ceil(v);
        case ROUND: return std::round(v);
        case TRUNC: return std::trunc(v);
        default: return std::nearbyint(v);
    }
}

void convert(DT dd, DT sd, void* d, const void* s, int mode, int64_t n, float scale) {
    bool nearest = mode == NONE || mode == RINT;
    if (dd == F32 && (sd == F16 || sd == BF16)) {
        load_floats(sd, s, static_cast<float*>(d), n);
        return;
    }
    if ((dd == F16 || dd == BF16) && sd == F32 && nearest) {
        store_floats(dd, static_cast<const float*>(s), d, n);
        return;
    }
    if (dd == F32 && sd == F32) {
        each<float, float>(d, s, n, [=](float v) { return round_f32(v, mode); });
        return;
    }
    if (dd == F32 && sd == I32 && nearest) {
        each<float, int32_t>(d, s, n, [](int32_t v) { return static_cast<float>(v); });
        return;
    }
    if (dd == I32 && sd == F32) {
        each<int32_t, float>(d, s, n, [=](float v) {
            float r = round_f32(v, mode);
            return r != r ? 0 : r >= 2147483648.0f ? 2147483647 : r <= -2147483648.0f ? static_cast<int32_t>(0x80000000u) : static_cast<int32_t>(r);
        });
        return;
    }
    if (dd == F16 && (sd == U8 || sd == I8)) {
        each<uint16_t, uint8_t>(d, s, n, [=](uint8_t v) { return twin_f2h(sd == U8 ? v : static_cast<int8_t>(v)); });
        return;
    }
    if ((dd == U8 || dd == I8) && sd == F16) {
        float lo = dd == U8 ? 0.0f : -128.0f, hi = dd == U8 ? 255.0f : 127.0f;
        each<uint8_t, uint16_t>(d, s, n, [=](uint16_t h) {
            float r = round_f32(twin_h2f(h), mode);
            return r != r ? uint8_t(0) : static_cast<uint8_t>(static_cast<int32_t>(r < lo ? lo : r > hi ? hi : r));
        });
        return;
    }
    uint32_t de = dt_size(dd), se = dt_size(sd);
    for (int64_t i = 0; i < n; ++i) {
        long double v = load(sd, static_cast<const uint8_t*>(s) + i * se);
        if (dd == F16 && sd == I32) {
            v *= scale;
        }
        store(dd, static_cast<uint8_t*>(d) + i * de, v, mode);
    }
}

}  // namespace

void cast(const char* api, const Opd& dst, const Opd& src, int mode, uint32_t allowed, const Form& f) {
    Core& c = core();
    uint32_t de = dt_size(dst.dt), se = dt_size(src.dt), wide = de > se ? de : se;
    Lanes l = resolve_form(c, api, f, wide);
    if (l.none) {
        return;
    }
    if (allowed == kNeedsDeq) {
        if (!c.deq_set) {
            fail("cast-mode", "Cast from int32 to half needs SetDeqScale first");
        }
        mode = RINT;
    } else if (mode < 0 || mode > ODD || !(allowed >> mode & 1)) {
        fail("cast-mode", "Cast does not have round mode %s for this pair of types on this chip",
             mode >= 0 && mode <= ODD ? kModeNames[mode] : "UNKNOWN");
    }
    View d = make_view(c, api, "dst", dst, l, true);
    View s = make_view(c, api, "src", src, l, false);
    check_overlap(api, d, s, l, false);
    c.issue(PV, api);
    check_operand(c, api, s, l, false);
    check_operand(c, api, d, l, true);
    bool bad = any_taint(c, s, l);
    float scale = c.deq_set ? twin_h2f(c.deq_scale) : 1.0f;
    if (l.flat) {
        if (!bad) {
            c.set_taint(d.off, static_cast<uint64_t>(l.n) * de, false);
        } else {
            for (int64_t i = 0; i < l.n; ++i) {
                if (i % 32 == 0) {  // clean stretches at once
                    uint32_t n = static_cast<uint32_t>(l.n - i < 32 ? l.n - i : 32);
                    if (!c.tainted(s.off + static_cast<uint32_t>(i) * se, n * se)) {
                        c.set_taint(d.off + static_cast<uint32_t>(i) * de, n * de, false);
                        i += n - 1;
                        continue;
                    }
                }
                bool t = c.tainted_elem(s.off + static_cast<uint32_t>(i) * se, se);
                c.set_taint(d.off + static_cast<uint32_t>(i) * de, de, t);
            }
        }
        convert(dst.dt, src.dt, c.ub + d.off, c.ub + s.off, mode, l.n, scale);
    } else {
        alignas(32) uint8_t in[512] = {}, out[512] = {};
        uint8_t t[256] = {};
        for (int64_t r = 0; r < l.reps; ++r) {
            fetch(c, s, l, r, in);
            if (bad) {
                fetch_taint(c, s, l, r, t);
            }
            convert(dst.dt, src.dt, out, in, mode, l.lanes, scale);
            deposit(c, d, l, r, out);
            deposit_taint(c, d, l, r, t);
        }
    }
    stamp_operand(c, s, l, false);
    stamp_operand(c, d, l, true);
    count_vector(c, l, wide);
}

void set_deq_scale(uint16_t half_bits) {
    Core& c = core();
    c.issue(PS, "SetDeqScale");
    c.deq_scale = half_bits;
    c.deq_set = true;
}

}  // namespace tw
