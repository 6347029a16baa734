// Element-wise vector instructions.
#include <cmath>
#include <limits>

#include "lanes.h"

namespace tw {

namespace {

using Compute = void (*)(void* d, const void* a, const void* b, const Scalar& s, int64_t n);

template <typename T> T scalar_as(const Scalar& s) {
    T v;
    memcpy(&v, &s.raw, sizeof(T));
    return v;
}

// Loads of one element type and the arithmetic type it computes in.
template <DT dt> struct Elem;
template <> struct Elem<F32> { using S = float; using C = float; };
template <> struct Elem<F16> { using S = uint16_t; using C = float; };
template <> struct Elem<BF16> { using S = uint16_t; using C = float; };
template <> struct Elem<I8> { using S = int8_t; using C = int8_t; };
template <> struct Elem<U8> { using S = uint8_t; using C = uint8_t; };
template <> struct Elem<I16> { using S = int16_t; using C = int16_t; };
template <> struct Elem<U16> { using S = uint16_t; using C = uint16_t; };
template <> struct Elem<I32> { using S = int32_t; using C = int32_t; };
template <> struct Elem<U32> { using S = uint32_t; using C = uint32_t; };
template <> struct Elem<I64> { using S = int64_t; using C = int64_t; };
template <> struct Elem<U64> { using S = uint64_t; using C = uint64_t; };

template <typename C> constexpr bool is_float = std::is_same_v<C, float>;
template <typename C> using Wrap = std::conditional_t<is_float<C>, float, std::make_unsigned_t<std::conditional_t<is_float<C>, int, C>>>;

template <typename C> C add(C a, C b) { return static_cast<C>(static_cast<Wrap<C>>(a) + static_cast<Wrap<C>>(b)); }
template <typename C> C sub(C a, C b) { return static_cast<C>(static_cast<Wrap<C>>(a) - static_cast<Wrap<C>>(b)); }
template <typename C> C mul(C a, C b) {
    if constexpr (is_float<C>) {
        return a * b;
    } else {
        return static_cast<C>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    }
}
template <typename C> C max_(C a, C b) {
    if constexpr (is_float<C>) {
        return a != a ? a : (b != b ? b : (a > b ? a : b));
    } else {
        return a > b ? a : b;
    }
}
template <typename C> C min_(C a, C b) {
    if constexpr (is_float<C>) {
        return a != a ? a : (b != b ? b : (a < b ? a : b));
    } else {
        return a < b ? a : b;
    }
}
template <typename C> C div_(C a, C b) {
    if constexpr (is_float<C>) {
        return a / b;
    } else {
        if (b == 0) {
            return 0;
        }
        if constexpr (std::is_signed_v<C>) {
            if (b == static_cast<C>(-1)) {
                return sub<C>(0, a);
            }
        }
        return static_cast<C>(a / b);
    }
}
// Rsqrt and Reciprocal are documented as good to about 2e-4 (float) and 2e-3 (half): keep that many bits only.
float rough(float v, DT dt) {
    uint32_t w;
    memcpy(&w, &v, 4);
    uint32_t drop = dt == F16 ? 14 : 11;
    if ((w & 0x7f800000u) != 0x7f800000u) {
        w &= ~((1u << drop) - 1);
    }
    memcpy(&v, &w, 4);
    return v;
}

// d[i] = f(d[i], a[i], b[i]); 16-bit floats go through float in chunks.
template <DT dt, bool use_d, bool use_a, bool use_b, typename F>
void apply(void* d, const void* a, const void* b, int64_t n, F f) {
    using S = typename Elem<dt>::S;
    if constexpr (dt == F16 || dt == BF16) {
        constexpr int64_t chunk = 512;
        float x[chunk], y[chunk], z[chunk];
        for (int64_t i = 0; i < n; i += chunk) {
            int64_t m = n - i < chunk ? n - i : chunk;
            if (use_d) load_floats(dt, static_cast<S*>(d) + i, z, m);
            if (use_a) load_floats(dt, static_cast<const S*>(a) + i, x, m);
            if (use_b) load_floats(dt, static_cast<const S*>(b) + i, y, m);
#pragma GCC ivdep
            for (int64_t k = 0; k < m; ++k) {
                z[k] = f(use_d ? z[k] : 0.0f, use_a ? x[k] : 0.0f, use_b ? y[k] : 0.0f);
            }
            store_floats(dt, z, static_cast<S*>(d) + i, m);
        }
    } else {
        S* o = static_cast<S*>(d);
        const S* x = static_cast<const S*>(a);
        const S* y = static_cast<const S*>(b);
#pragma GCC ivdep
        for (int64_t i = 0; i < n; ++i) {
            o[i] = f(use_d ? o[i] : S(0), use_a ? x[i] : S(0), use_b ? y[i] : S(0));
        }
    }
}

template <DT dt>
typename Elem<dt>::C scalar_value(const Scalar& s) {
    if constexpr (dt == F16) {
        return twin_h2f(static_cast<uint16_t>(s.raw));
    } else if constexpr (dt == BF16) {
        float f;
        uint32_t w = static_cast<uint32_t>(s.raw & 0xffff) << 16;
        memcpy(&f, &w, 4);
        return f;
    } else {
        return scalar_as<typename Elem<dt>::C>(s);
    }
}

template <DT dt>
void shift(bool left, void* d, const void* a, const Scalar& s, int64_t n) {
    using C = typename Elem<dt>::C;
    if constexpr (!is_float<C>) {
        using W = Wrap<C>;
        int64_t by = static_cast<int64_t>(scalar_as<C>(s));
        constexpr int width = sizeof(C) * 8;
        apply<dt, false, true, false>(d, a, nullptr, n, [=](C, C x, C) -> C {
            if (left) {
                C r = by >= width ? C(0) : static_cast<C>(static_cast<W>(x) << by);
                if constexpr (std::is_signed_v<C>) {  // the sign bit stays
                    W sign = static_cast<W>(W(1) << (width - 1));
                    r = static_cast<C>((static_cast<W>(r) & static_cast<W>(~sign)) | (static_cast<W>(x) & sign));
                }
                return r;
            }
            C r = by >= width ? (x < 0 ? static_cast<C>(-1) : C(0)) : static_cast<C>(x >> by);
            if (s.flag && by > 0 && by <= width) {
                r = add<C>(r, static_cast<C>(x >> (by - 1) & 1));
            }
            return r;
        });
    }
}

template <DT dt, Op op>
void compute(void* d, const void* a, const void* b, const Scalar& s, int64_t n) {
    using C = typename Elem<dt>::C;
    using L = std::numeric_limits<float>;
    (void)sizeof(L);
    constexpr bool fl = is_float<C>;
    if constexpr (op == Op::Add) apply<dt, false, true, true>(d, a, b, n, [](C, C x, C y) { return add<C>(x, y); });
    else if constexpr (op == Op::Sub) apply<dt, false, true, true>(d, a, b, n, [](C, C x, C y) { return sub<C>(x, y); });
    else if constexpr (op == Op::Mul) apply<dt, false, true, true>(d, a, b, n, [](C, C x, C y) { return mul<C>(x, y); });
    else if constexpr (op == Op::Div) apply<dt, false, true, true>(d, a, b, n, [](C, C x, C y) { return div_<C>(x, y); });
    else if constexpr (op == Op::Max) apply<dt, false, true, true>(d, a, b, n, [](C, C x, C y) { return max_<C>(x, y); });
    else if constexpr (op == Op::Min) apply<dt, false, true, true>(d, a, b, n, [](C, C x, C y) { return min_<C>(x, y); });
    else if constexpr (op == Op::MulAddDst) apply<dt, true, true, true>(d, a, b, n, [](C z, C x, C y) { return add<C>(mul<C>(x, y), z); });
    else if constexpr (op == Op::FusedMulAdd) apply<dt, true, true, true>(d, a, b, n, [](C z, C x, C y) { return add<C>(mul<C>(x, z), y); });
    else if constexpr (op == Op::Relu) apply<dt, false, true, false>(d, a, b, n, [](C, C x, C) { return fl ? (x > 0 || x != x ? x : C(0)) : (x > 0 ? x : C(0)); });
    else if constexpr (op == Op::Neg) apply<dt, false, true, false>(d, a, b, n, [](C, C x, C) { return fl ? static_cast<C>(-x) : sub<C>(0, x); });
    else if constexpr (op == Op::Abs) apply<dt, false, true, false>(d, a, b, n, [](C, C x, C) -> C {
        if constexpr (fl) return std::fabs(x); else return x < 0 ? sub<C>(0, x) : x; });
    else if constexpr (op == Op::Adds) { C v = scalar_value<dt>(s); apply<dt, false, true, false>(d, a, b, n, [=](C, C x, C) { return add<C>(x, v); }); }
    else if constexpr (op == Op::Muls) { C v = scalar_value<dt>(s); apply<dt, false, true, false>(d, a, b, n, [=](C, C x, C) { return mul<C>(x, v); }); }
    else if constexpr (op == Op::Maxs) { C v = scalar_value<dt>(s); apply<dt, false, true, false>(d, a, b, n, [=](C, C x, C) { return max_<C>(x, v); }); }
    else if constexpr (op == Op::Mins) { C v = scalar_value<dt>(s); apply<dt, false, true, false>(d, a, b, n, [=](C, C x, C) { return min_<C>(x, v); }); }
    else if constexpr (op == Op::Axpy) { C v = scalar_value<dt>(s); apply<dt, true, true, false>(d, a, b, n, [=](C z, C x, C) { return add<C>(mul<C>(x, v), z); }); }
    else if constexpr (op == Op::ShiftLeft) shift<dt>(true, d, a, s, n);
    else if constexpr (op == Op::ShiftRight) shift<dt>(false, d, a, s, n);
    else if constexpr (fl) {
        const bool exact = chip().arch == 3510;
        (void)exact;
        if constexpr (op == Op::Exp) apply<dt, false, true, false>(d, a, b, n, [](C, C x, C) { return std::exp(x); });
        else if constexpr (op == Op::Ln) apply<dt, false, true, false>(d, a, b, n, [](C, C x, C) { return std::log(x); });
        else if constexpr (op == Op::Sqrt) apply<dt, false, true, false>(d, a, b, n, [](C, C x, C) { return std::sqrt(x); });
        else if constexpr (op == Op::Rsqrt) apply<dt, false, true, false>(d, a, b, n, [=](C, C x, C) { C r = 1.0f / std::sqrt(x); return exact ? r : rough(r, dt); });
        else if constexpr (op == Op::Reciprocal) apply<dt, false, true, false>(d, a, b, n, [=](C, C x, C) { C r = 1.0f / x; return exact ? r : rough(r, dt); });
        else if constexpr (op == Op::LeakyRelu) { C v = scalar_value<dt>(s); apply<dt, false, true, false>(d, a, b, n, [=](C, C x, C) { return x >= 0 || x != x ? x : x * v; }); }
    } else {
        if constexpr (op == Op::Reciprocal) apply<dt, false, true, false>(d, a, b, n, [](C, C x, C) { return div_<C>(1, x); });
    }
}

// Bitwise operations and fills do not depend on the type, only on its width.
template <typename U, Op op>
void bitwise(void* d, const void* a, const void* b, const Scalar& s, int64_t n) {
    U* o = static_cast<U*>(d);
    const U* x = static_cast<const U*>(a);
    const U* y = static_cast<const U*>(b);
    U v = static_cast<U>(s.raw);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
        if constexpr (op == Op::And) o[i] = x[i] & y[i];
        else if constexpr (op == Op::Or) o[i] = x[i] | y[i];
        else if constexpr (op == Op::Xor) o[i] = x[i] ^ y[i];
        else if constexpr (op == Op::Not) o[i] = static_cast<U>(~x[i]);
        else o[i] = v;
    }
}

template <Op op>
Compute by_width(uint32_t size) {
    switch (size) {
        case 1: return bitwise<uint8_t, op>;
        case 2: return bitwise<uint16_t, op>;
        case 4: return bitwise<uint32_t, op>;
        default: return bitwise<uint64_t, op>;
    }
}

template <Op op>
Compute by_type(DT dt) {
    switch (dt) {
        case F32: return compute<F32, op>;
        case F16: return compute<F16, op>;
        case BF16: return compute<BF16, op>;
        case I8: return compute<I8, op>;
        case U8: return compute<U8, op>;
        case I16: return compute<I16, op>;
        case U16: return compute<U16, op>;
        case I32: return compute<I32, op>;
        case U32: return compute<U32, op>;
        case I64: return compute<I64, op>;
        case U64: return compute<U64, op>;
        default: return nullptr;
    }
}

Compute find(Op op, DT dt) {
    switch (op) {
#define TYPED(name) case Op::name: return by_type<Op::name>(dt);
        TYPED(Add) TYPED(Sub) TYPED(Mul) TYPED(Div) TYPED(Max) TYPED(Min) TYPED(MulAddDst) TYPED(FusedMulAdd)
        TYPED(Exp) TYPED(Ln) TYPED(Sqrt) TYPED(Rsqrt) TYPED(Reciprocal) TYPED(Abs) TYPED(Relu) TYPED(Neg)
        TYPED(Adds) TYPED(Muls) TYPED(Maxs) TYPED(Mins) TYPED(ShiftLeft) TYPED(ShiftRight) TYPED(LeakyRelu) TYPED(Axpy)
#undef TYPED
#define SIZED(name) case Op::name: return by_width<Op::name>(dt_size(dt));
        SIZED(And) SIZED(Or) SIZED(Xor) SIZED(Not) SIZED(Fill)
#undef SIZED
        default: return nullptr;
    }
}

// half sources into a float destination: MulAddDst and Axpy.
void widen(Op op, float* d, const uint16_t* a, const uint16_t* b, const Scalar& s, int64_t n) {
    float v = twin_h2f(static_cast<uint16_t>(s.raw));
    float x[512], y[512];
    for (int64_t i = 0; i < n; i += 512) {
        int64_t m = n - i < 512 ? n - i : 512;
        h2f_n(a + i, x, m);
        if (op == Op::MulAddDst) {
            h2f_n(b + i, y, m);
        }
        for (int64_t k = 0; k < m; ++k) {
            d[i + k] = x[k] * (op == Op::MulAddDst ? y[k] : v) + d[i + k];
        }
    }
}

bool reads_dst(Op op) {
    return op == Op::MulAddDst || op == Op::FusedMulAdd || op == Op::Axpy;
}

// dst of one repeat may be src1 of a later one only for these, and only with a zero repeat stride.
bool may_accumulate(Op op, DT dt, const Opd& dst, const Opd& src1) {
    bool kind = op == Op::Add || op == Op::Sub || op == Op::Mul || op == Op::Max || op == Op::Min;
    return kind && (dt == F32 || dt == F16 || dt == I32) && (dst.rep == 0 || src1.rep == 0);
}

void propagate(Core& c, const View& d, const View* s, int nsrc, const Lanes& l, bool use_dst, bool bitwise_op) {
    bool bad = use_dst && any_taint(c, d, l);
    for (int i = 0; i < nsrc; ++i) {
        bad = bad || any_taint(c, s[i], l);
    }
    if (bad && bitwise_op && l.flat) {  // masks: taint is kept per bit
        uint64_t bytes = static_cast<uint64_t>(l.n) * d.esize;
        for (uint32_t i = 0; i < bytes; ++i) {
            uint8_t bits = 0;
            for (int k = 0; k < nsrc; ++k) {
                bits |= c.bits_tainted(s[k].off + i);
            }
            c.set_bits_tainted(d.off + i, bits);
        }
        return;
    }
    if (l.flat) {
        uint64_t bytes = static_cast<uint64_t>(l.n) * d.esize;
        if (!bad) {
            c.set_taint(d.off, bytes, false);
            return;
        }
        // Clean stretches of 32 elements are handled at once: usually only the tail of a tile is tainted.
        for (int64_t i = 0; i < l.n; ++i) {
            uint32_t at = d.off + static_cast<uint32_t>(i) * d.esize;
            if (i % 32 == 0) {
                uint32_t n = static_cast<uint32_t>(l.n - i < 32 ? l.n - i : 32);
                bool any = use_dst && c.tainted(at, n * d.esize);
                for (int k = 0; k < nsrc; ++k) {
                    any = any || c.tainted(s[k].off + static_cast<uint32_t>(i) * s[k].esize, n * s[k].esize);
                }
                if (!any) {
                    c.set_taint(at, n * d.esize, false);
                    i += n - 1;
                    continue;
                }
            }
            bool t = use_dst && c.tainted_elem(at, d.esize);
            for (int k = 0; k < nsrc; ++k) {
                t = t || c.tainted_elem(s[k].off + static_cast<uint32_t>(i) * s[k].esize, s[k].esize);
            }
            c.set_taint(at, d.esize, t);
        }
        return;
    }
    if (!bad) {
        for_blocks(d, l, [&](uint32_t b, uint32_t m, int64_t, uint32_t) { c.taint[b] &= ~m; });
        return;
    }
    uint8_t sum[256], one[256];
    for (int64_t r = 0; r < l.reps; ++r) {
        memset(sum, 0, sizeof(sum));
        for (int k = 0; k < nsrc + (use_dst ? 1 : 0); ++k) {
            fetch_taint(c, k < nsrc ? s[k] : d, l, r, one);
            for (uint32_t i = 0; i < l.lanes; ++i) {
                sum[i] |= one[i];
            }
        }
        deposit_taint(c, d, l, r, sum);
    }
}

}  // namespace

void vec(const char* api, Op op, const Opd& dst, const Opd* src, int nsrc, const Scalar& s, const Form& f) {
    Core& c = core();
    uint32_t wide = dt_size(dst.dt);
    bool widening = nsrc > 0 && src[0].dt != dst.dt;
    Lanes l = resolve_form(c, api, f, wide);
    if (l.none) {
        return;
    }
    if (op == Op::ShiftLeft || op == Op::ShiftRight) {
        int64_t by = wide == 2 ? static_cast<int16_t>(s.raw) : static_cast<int32_t>(s.raw);
        if (by < 0 || (chip().arch == 2201 && by > static_cast<int64_t>(wide) * 8)) {
            fail("scalar", "%s: shift count %lld is not in 0..%u", api, static_cast<long long>(by), wide * 8);
        }
    }
    bool accumulates = nsrc == 2 && !l.flat && may_accumulate(op, dst.dt, dst, src[1]);
    View d = make_view(c, api, "dst", dst, l, true, accumulates || op == Op::Fill);
    View v[2];
    static const char* const names[2] = {"src0", "src1"};
    for (int i = 0; i < nsrc; ++i) {
        v[i] = make_view(c, api, nsrc == 1 ? "src" : names[i], src[i], l, false);
        check_overlap(api, d, v[i], l, i == 1 && may_accumulate(op, dst.dt, dst, src[1]));
    }
    c.issue(PV, api);
    bool use_dst = reads_dst(op);
    for (int i = 0; i < nsrc; ++i) {
        check_operand(c, api, v[i], l, false);
    }
    check_operand(c, api, d, l, true);

    bool bits = op == Op::And || op == Op::Or || op == Op::Xor || op == Op::Not;
    if (!accumulates) {
        propagate(c, d, v, nsrc, l, use_dst, bits);
    }
    Compute fn = widening ? nullptr : find(op, dst.dt);
    if (l.flat) {
        void* o = c.ub + d.off;
        const void* a = nsrc > 0 ? c.ub + v[0].off : nullptr;
        const void* b = nsrc > 1 ? c.ub + v[1].off : nullptr;
        if (widening) {
            widen(op, static_cast<float*>(o), static_cast<const uint16_t*>(a), static_cast<const uint16_t*>(b), s, l.n);
        } else {
            fn(o, a, b, s, l.n);
        }
    } else {
        alignas(32) uint8_t buf[3][512] = {};
        for (int64_t r = 0; r < l.reps; ++r) {
            const void* in[2] = {buf[1], buf[2]};
            for (int i = 0; i < nsrc; ++i) {
                if (v[i].blk == 1 && v[i].off + (static_cast<uint32_t>(r) * v[i].rep + 16) * 32 <= kUbBytes) {
                    in[i] = c.ub + v[i].off + static_cast<uint32_t>(r) * v[i].rep * 32;
                } else {
                    fetch(c, v[i], l, r, buf[1 + i]);
                }
            }
            if (use_dst) {
                fetch(c, d, l, r, buf[0]);
            }
            if (accumulates) {
                Lanes one = l;
                one.reps = 1;
                memcpy(one.last, l.of(r), sizeof(one.last));
                View dr = d, vr[2] = {v[0], v[1]};
                for (View* w : {&dr, &vr[0], &vr[1]}) {
                    w->off += static_cast<uint32_t>(r) * w->rep * 32;
                    if (r + 1 != l.reps) {
                        memcpy(w->bytes_last, w->bytes_full, sizeof(w->bytes_last));
                    }
                }
                propagate(c, dr, vr, nsrc, one, false, false);
            }
            if (widening) {
                widen(op, reinterpret_cast<float*>(buf[0]), static_cast<const uint16_t*>(in[0]),
                      static_cast<const uint16_t*>(in[1]), s, l.lanes);
            } else {
                fn(buf[0], in[0], in[1], s, l.lanes);
            }
            deposit(c, d, l, r, buf[0]);
        }
    }
    for (int i = 0; i < nsrc; ++i) {
        stamp_operand(c, v[i], l, false);
    }
    if (use_dst) {
        stamp_operand(c, d, l, false);
    }
    stamp_operand(c, d, l, true);
    count_vector(c, l, wide);
}

}  // namespace tw
