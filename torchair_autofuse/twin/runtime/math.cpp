// High-level math functions and Broadcast: values, temporary-buffer rules and overlap rules.
#include <cmath>
#include <vector>

#include "lanes.h"

namespace tw {

namespace {

// Bytes of temporary buffer an API must be given (the `min` of the host helpers; above it the API only loops less).
uint64_t least_tmp(Fn fn, DT dt, uint64_t n, bool reuse, bool scalar) {
    bool half_type = dt == F16;
    uint32_t arch = chip().arch;
    switch (fn) {
        case Fn::Tanh: return half_type ? 1024 : 256;
        case Fn::Sigmoid: return 256;
        case Fn::Erf: return half_type ? 2048 : 768;
        case Fn::Erfc: return half_type ? 4096 : 1792;
        case Fn::Gelu: return 768;
        case Fn::Log2: return half_type ? 256 : 0;
        case Fn::Sin:
        case Fn::Cos: return half_type ? 2048 : reuse ? 512 : 768;
        case Fn::Tan: return half_type ? 2560 : 1024;
        case Fn::Asin:
        case Fn::Acos: return half_type ? 1536 : 512;
        case Fn::Atan: return half_type ? 3072 : 1280;
        case Fn::Sinh: return half_type ? 1024 : 256;
        case Fn::Cosh: return half_type ? 1536 : 512;
        case Fn::Asinh: return 768;
        case Fn::Acosh: return half_type ? 512 : 256;
        case Fn::Atanh: return half_type ? 1024 : 256;
        case Fn::Floor: return half_type ? 512 : 0;
        case Fn::Ceil:
        case Fn::Trunc: return half_type ? 512 : 256;
        case Fn::Round: return arch == 2002 ? (half_type ? 512 : 256) : half_type ? 256 : 0;
        case Fn::Frac: return half_type ? 1024 : 0;
        case Fn::Sign: return 768;
        case Fn::Fmod: return half_type ? 2048 : 256;
        case Fn::ExpHigh: return half_type ? 1024 : reuse ? 512 : 768;
        case Fn::ClampMax:
        case Fn::ClampMin: return half_type ? 128 : 64;
        case Fn::Xor: return 256;
        case Fn::Power:
            if (arch == 3510) {
                return dt == I32 ? 0 : 12 * n;
            }
            if (half_type) {
                return arch == 2002 ? 2304 : 2048;
            }
            if (dt == I32) {
                return (scalar ? 1792 : 1536) + (arch == 2002 ? 256 : 0);
            }
            return (scalar ? 1536 : 1280) + (arch == 2002 ? 256 : 0);
        default: return 0;
    }
}

float one(Fn fn, float x, float y) {
    double d = x;
    switch (fn) {
        case Fn::Tanh: return static_cast<float>(std::tanh(d));
        case Fn::Sigmoid: return static_cast<float>(1.0 / (1.0 + std::exp(-d)));
        case Fn::Erf: return static_cast<float>(std::erf(d));
        case Fn::Erfc: return static_cast<float>(std::erfc(d));
        case Fn::Gelu: return static_cast<float>(d / (1.0 + std::exp(-1.5957691216057308 * (d + 0.044715 * d * d * d))));
        case Fn::Silu: return static_cast<float>(d / (1.0 + std::exp(-d)));
        case Fn::Swish: return static_cast<float>(d / (1.0 + std::exp(-static_cast<double>(y) * d)));
        case Fn::Log: return static_cast<float>(std::log(d));
        case Fn::Log2: return static_cast<float>(std::log2(d));
        case Fn::Log10: return static_cast<float>(std::log10(d));
        case Fn::Sin: return static_cast<float>(std::sin(d));
        case Fn::Cos: return static_cast<float>(std::cos(d));
        case Fn::Tan: return static_cast<float>(std::tan(d));
        case Fn::Asin: return static_cast<float>(std::asin(d));
        case Fn::Acos: return static_cast<float>(std::acos(d));
        case Fn::Atan: return static_cast<float>(std::atan(d));
        case Fn::Sinh: return static_cast<float>(std::sinh(d));
        case Fn::Cosh: return static_cast<float>(std::cosh(d));
        case Fn::Asinh: return static_cast<float>(std::asinh(d));
        case Fn::Acosh: return static_cast<float>(std::acosh(d));
        case Fn::Atanh: return static_cast<float>(std::atanh(d));
        case Fn::Floor: return std::floor(x);
        case Fn::Ceil: return std::ceil(x);
        case Fn::Trunc: return std::trunc(x);
        case Fn::Round:
        case Fn::Rint: return std::nearbyint(x);
        case Fn::Frac: return x - std::trunc(x);
        case Fn::Sign: return x > 0 ? 1.0f : x < 0 ? -1.0f : 0.0f;
        case Fn::ExpHigh: return static_cast<float>(std::exp(d));
        case Fn::ClampMax: return x > y ? y : x;
        case Fn::ClampMin: return x < y ? y : x;
        case Fn::Fmod: return static_cast<float>(std::fmod(d, static_cast<double>(y)));
        case Fn::Power: return static_cast<float>(std::pow(d, static_cast<double>(y)));
        default: return 0;
    }
}

int32_t int_power(int32_t base, int32_t exponent) {
    if (exponent < 0) {
        return base == 1 ? 1 : base == -1 ? (exponent & 1 ? -1 : 1) : 0;
    }
    uint32_t r = 1, b = static_cast<uint32_t>(base);
    for (uint32_t e = static_cast<uint32_t>(exponent); e != 0; e >>= 1, b *= b) {
        r *= e & 1 ? b : 1;
    }
    return static_cast<int32_t>(r);
}

void compute(Fn fn, DT dt, uint8_t* d, const uint8_t* a, const uint8_t* b, const Scalar& s, int64_t n) {
    if (fn == Fn::Xor) {
        for (int64_t i = 0; i < n * 2; ++i) {
            d[i] = a[i] ^ b[i];
        }
        return;
    }
    if (dt == I32) {
        for (int64_t i = 0; i < n; ++i) {
            int32_t v = static_cast<int32_t>(s.raw), x = v, y = v;
            if (a != nullptr) memcpy(&x, a + i * 4, 4);
            if (b != nullptr) memcpy(&y, b + i * 4, 4);
            x = int_power(x, y);
            memcpy(d + i * 4, &x, 4);
        }
        return;
    }
    float v, x[256], y[256];
    load_floats(dt, &s.raw, &v, 1);
    uint32_t es = dt_size(dt);
    for (int64_t i = 0; i < n; i += 256) {
        int64_t m = n - i < 256 ? n - i : 256;
        if (a != nullptr) load_floats(dt, a + i * es, x, m);
        if (b != nullptr) load_floats(dt, b + i * es, y, m);
        for (int64_t k = 0; k < m; ++k) {
            x[k] = one(fn, a != nullptr ? x[k] : v, b != nullptr ? y[k] : v);
        }
        store_floats(dt, x, d + i * es, m);
    }
}

bool hits(uint64_t a, uint64_t an, uint64_t b, uint64_t bn) {
    return a < b + bn && b < a + an;
}

}  // namespace

void high_level(const char* api, Fn fn, DT dt, const Loc& dst, const Loc* a, const Loc* b, const Scalar& s,
                const Loc* tmp, int64_t count, bool reuse) {
    Core& c = core();
    uint32_t es = dt_size(dt);
    if (count < 0 || count > kUbBytes) {
        fail("count", "%s: count %lld", api, static_cast<long long>(count));
    }
    c.counter_mode = false;
    c.mask[0] = c.mask[1] = ~0ull;
    if (fn == Fn::Power || fn == Fn::Sign) {  // they use Select inside
        c.need_reserved(api);
    }
    if (count == 0) {
        return;
    }
    uint64_t bytes = static_cast<uint64_t>(count) * es;
    uint64_t need = least_tmp(fn, dt, static_cast<uint64_t>(count), reuse, a == nullptr || b == nullptr);
    uint64_t have = tmp != nullptr ? tmp->bytes : chip().ub_total - c.ub_used;
    if (need > have) {
        fail("tmp-size", "%s of %lld elements needs %llu bytes of temporary buffer, there are %llu%s", api,
             static_cast<long long>(count), static_cast<unsigned long long>(need), static_cast<unsigned long long>(have),
             tmp != nullptr ? "" : " left in UB");
    }
    uint32_t to = c.resolve(api, "dst", dst, bytes, 32);
    bool same_allowed = fn == Fn::Gelu || fn == Fn::Trunc;
    const Loc* in[2] = {a, b};
    uint32_t from[2] = {0, 0};
    for (int i = 0; i < 2; ++i) {
        if (in[i] == nullptr) {
            continue;
        }
        from[i] = c.resolve(api, "src", *in[i], bytes, 32);
        if (hits(from[i], bytes, to, bytes) && !(same_allowed && from[i] == to)) {
            fail("overlap", "%s: src and dst may not overlap", api);
        }
    }
    uint32_t work = 0;
    uint64_t work_bytes = 0;
    if (tmp != nullptr && need > 0) {
        work_bytes = tmp->bytes;
        work = c.resolve(api, "sharedTmpBuffer", *tmp, work_bytes, 32);
        if (hits(work, work_bytes, to, bytes) || (a != nullptr && hits(work, work_bytes, from[0], bytes)) ||
            (b != nullptr && hits(work, work_bytes, from[1], bytes))) {
            fail("overlap", "%s: sharedTmpBuffer may not overlap src or dst", api);
        }
    }
    c.issue(PV, api);
    bool bad = false;
    for (int i = 0; i < 2; ++i) {
        if (in[i] != nullptr) {
            c.check_read(PV, from[i], bytes, api);
            bad = bad || c.tainted(from[i], bytes);
        }
    }
    c.check_write(PV, to, bytes, api);
    if (work_bytes > 0) {
        c.check_write(PV, work, work_bytes, api);
    }
    std::vector<bool> t;
    if (bad) {
        t.resize(static_cast<size_t>(count));
        for (int64_t i = 0; i < count; ++i) {
            uint32_t at = static_cast<uint32_t>(i) * es;
            t[static_cast<size_t>(i)] = (a != nullptr && c.tainted_elem(from[0] + at, es)) || (b != nullptr && c.tainted_elem(from[1] + at, es));
        }
    }
    compute(fn, dt, c.ub + to, a != nullptr ? c.ub + from[0] : nullptr, b != nullptr ? c.ub + from[1] : nullptr, s, count);
    c.set_taint(to, bytes, false);
    for (size_t i = 0; i < t.size(); ++i) {
        if (t[i]) {
            c.set_taint(to + static_cast<uint32_t>(i) * es, es, true);
        }
    }
    for (int i = 0; i < 2; ++i) {
        if (in[i] != nullptr) {
            c.stamp_read(PV, from[i], bytes);
            if (reuse && from[i] != to) {  // the source may be overwritten
                c.check_write(PV, from[i], bytes, api);
                c.set_taint(from[i], bytes, true);
                c.stamp_write(PV, from[i], bytes);
            }
        }
    }
    c.stamp_write(PV, to, bytes);
    if (work_bytes > 0) {
        c.set_taint(work, work_bytes, true);
        c.stamp_write(PV, work, work_bytes);
    }
    c.n.elements += static_cast<uint64_t>(count);
    c.n.repeats += (bytes + 255) / 256;
}

void broadcast(DT dt, uint32_t es, const Loc& dst, const Loc& src, const Loc* tmp, uint32_t dim, uint32_t axis,
               const uint32_t* dst_shape, const uint32_t* src_shape) {
    Core& c = core();
    const char* api = "Broadcast";
    (void)dt;
    uint64_t dr = dim == 2 ? dst_shape[0] : 1, dc = dst_shape[dim - 1], sr = dim == 2 ? src_shape[0] : 1, sc = src_shape[dim - 1];
    bool rows_same = sr == dr || sr == 1, cols_same = sc == dc || sc == 1;
    bool axis_ok = dim == 1 ? sc == 1 || sc == dc : axis == 0 ? sc == dc : sr == dr;
    if (!rows_same || !cols_same || (!axis_ok && !(sr == 1 && sc == 1))) {
        fail("count", "Broadcast: shape [%llu, %llu] does not spread to [%llu, %llu] along axis %u",
             static_cast<unsigned long long>(sr), static_cast<unsigned long long>(sc), static_cast<unsigned long long>(dr),
             static_cast<unsigned long long>(dc), axis);
    }
    bool trivial = (sr == dr && sc == dc) || sr * sc == 1;
    uint32_t arch = chip().arch;
    if (dim == 2 && !trivial && arch != 3510) {
        if (axis == 0 && sc * es % 32 != 0) {
            fail("alignment", "Broadcast along axis 0: a source row of %llu bytes is not a multiple of 32",
                 static_cast<unsigned long long>(sc * es));
        }
        if (axis == 1 && arch == 2002 && sr * es % 32 != 0) {
            fail("alignment", "Broadcast along axis 1: a source column of %llu bytes is not a multiple of 32",
                 static_cast<unsigned long long>(sr * es));
        }
    }
    uint64_t w = es == 1 ? 2 : es, e = 32 / w, need = 0;
    auto up = [](uint64_t n, uint64_t to) { return (n + to - 1) / to * to; };
    if (arch != 3510) {
        if (!trivial) {
            need = dim == 1 || axis == 0 ? 32 : arch == 2002 ? 32 + e * ((dc + 7) / 8) * w : dc % e == 0 ? e * e * w : e * e * w + e * up(dc, e) * w;
        }
        if (es == 1) {
            need += up(2 * sr * sc, 32) + up(2 * dr * dc, 32) + (trivial ? 32 : 0);
        }
    }
    uint64_t have = tmp != nullptr ? tmp->bytes : chip().ub_total - c.ub_used;
    if (need > have) {
        fail("tmp-size", "Broadcast needs %llu bytes of temporary buffer, there are %llu", static_cast<unsigned long long>(need),
             static_cast<unsigned long long>(have));
    }
    c.counter_mode = false;
    c.mask[0] = c.mask[1] = ~0ull;
    if (dr * dc == 0) {
        return;
    }
    uint64_t in_bytes = sr * sc * es, out_bytes = dr * dc * es;
    uint32_t from = c.resolve(api, "srcLocal", src, in_bytes, 32), to = c.resolve(api, "dstLocal", dst, out_bytes, 32);
    uint64_t work_bytes = tmp != nullptr && need > 0 ? tmp->bytes : 0;
    uint32_t work = work_bytes > 0 ? c.resolve(api, "sharedTmpBuffer", *tmp, work_bytes, 32) : 0;
    if (hits(from, in_bytes, to, out_bytes) ||
        (work_bytes > 0 && (hits(work, work_bytes, to, out_bytes) || hits(work, work_bytes, from, in_bytes)))) {
        fail("overlap", "Broadcast: src, dst and sharedTmpBuffer may not overlap");
    }
    c.issue(PV, api);
    c.check_read(PV, from, in_bytes, api);
    c.check_write(PV, to, out_bytes, api);
    if (work_bytes > 0) {
        c.check_write(PV, work, work_bytes, api);
        c.set_taint(work, work_bytes, true);
    }
    for (uint64_t r = 0; r < dr; ++r) {
        for (uint64_t k = 0; k < dc; ++k) {
            uint32_t s = from + static_cast<uint32_t>(((sr == 1 ? 0 : r) * sc + (sc == 1 ? 0 : k)) * es);
            uint32_t d = to + static_cast<uint32_t>((r * dc + k) * es);
            memcpy(c.ub + d, c.ub + s, es);
            c.set_taint(d, es, c.tainted_elem(s, es));
        }
    }
    c.stamp_read(PV, from, in_bytes);
    c.stamp_write(PV, to, out_bytes);
    if (work_bytes > 0) {
        c.stamp_write(PV, work, work_bytes);
    }
    c.n.elements += dr * dc;
    c.n.repeats += (out_bytes + 255) / 256;
}

}  // namespace tw
