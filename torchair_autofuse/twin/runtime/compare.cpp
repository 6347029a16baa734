// Compare to bit masks and Select by them. Taint of a mask is kept per bit.
#include "lanes.h"

namespace tw {

namespace {

template <typename T>
bool holds(int mode, T a, T b) {
    switch (mode) {
        case 0: return a < b;
        case 1: return a > b;
        case 2: return a == b;
        case 3: return a <= b;
        case 4: return a >= b;
        default: return a != b;
    }
}

template <typename T>
bool test(int mode, const uint8_t* a, const uint8_t* b) {
    T x, y;
    memcpy(&x, a, sizeof(T));
    memcpy(&y, b, sizeof(T));
    return holds(mode, x, y);
}

bool test_dt(DT dt, int mode, const uint8_t* a, const uint8_t* b) {
    switch (dt) {
        case F32: return test<float>(mode, a, b);
        case F16:
        case BF16: {
            float x, y;
            load_floats(dt, a, &x, 1);
            load_floats(dt, b, &y, 1);
            return holds(mode, x, y);
        }
        case I8: return test<int8_t>(mode, a, b);
        case U8: return test<uint8_t>(mode, a, b);
        case I16: return test<int16_t>(mode, a, b);
        case U16: return test<uint16_t>(mode, a, b);
        case I32: return test<int32_t>(mode, a, b);
        case U32: return test<uint32_t>(mode, a, b);
        case I64: return test<int64_t>(mode, a, b);
        default: return test<uint64_t>(mode, a, b);
    }
}

// One repeat (or a chunk of a flat run) of comparisons: bits and which of them are tainted.
void compare_run(DT dt, int mode, const uint8_t* a, const uint8_t* b, uint32_t bstep, uint32_t n, uint64_t* bits) {
    uint32_t es = dt_size(dt);
    if (dt == F32) {
        for (uint32_t i = 0; i < n; ++i) {
            float x, y;
            memcpy(&x, a + i * 4, 4);
            memcpy(&y, b + i * bstep, 4);
            bits[i >> 6] |= static_cast<uint64_t>(holds(mode, x, y)) << (i & 63);
        }
        return;
    }
    for (uint32_t i = 0; i < n; ++i) {
        bits[i >> 6] |= static_cast<uint64_t>(test_dt(dt, mode, a + i * es, b + i * bstep)) << (i & 63);
    }
}

}  // namespace

void compare(const char* api, const Opd& dst, const Opd& a, const Opd* b, const Scalar& s, int mode, const Form& f) {
    Core& c = core();
    uint32_t es = dt_size(a.dt);
    if (f.kind == Form::COUNT && f.count >= 0 && f.count * es % 256 != 0) {
        fail("compare-256", "%s: count %lld is %lld bytes, not a multiple of 256", api, static_cast<long long>(f.count),
             static_cast<long long>(f.count * es));
    }
    if (a.dt == I32 && mode != 2 && chip().arch == 2201) {
        fail("dtype", "%s: int32 has only CMPMODE::EQ on this chip", api);
    }
    Form form = f;
    if (f.kind != Form::COUNT && chip().arch != 3510 && !c.counter_mode) {
        form.kind = Form::CONT;  // the mask is ignored there
        form.count = 256 / es;
    }
    Lanes l = resolve_form(c, api, form, es);
    if (l.none) {
        return;
    }
    View x = make_view(c, api, "src0", a, l, false), y{};
    if (b != nullptr) {
        y = make_view(c, api, "src1", *b, l, false);
    }
    uint64_t total = l.flat ? static_cast<uint64_t>(l.n) : static_cast<uint64_t>(l.reps) * l.lanes;
    uint64_t bytes = (total + 7) / 8;
    uint32_t to = c.resolve(api, "dst", dst.loc, bytes, 32);
    for (const View* v : {&x, &y}) {
        uint64_t extent = l.flat ? static_cast<uint64_t>(l.n) * es : ((static_cast<uint64_t>(l.reps) - 1) * v->rep + 7u * v->blk + 1) * 32;
        if ((v == &x || b != nullptr) && to < v->off + extent && v->off < to + bytes) {
            fail("overlap", "%s: dst and a source overlap", api);
        }
    }
    c.issue(PV, api);
    check_operand(c, api, x, l, false);
    if (b != nullptr) {
        check_operand(c, api, y, l, false);
    }
    c.check_write(PV, to, bytes, api);
    bool bad = any_taint(c, x, l) || (b != nullptr && any_taint(c, y, l));

    const uint32_t chunk = l.flat ? 128 : l.lanes;
    uint8_t scalar[8];
    memcpy(scalar, &s.raw, 8);
    for (uint64_t first = 0; first < total; first += chunk) {
        uint32_t n = static_cast<uint32_t>(total - first < chunk ? total - first : chunk);
        int64_t r = l.flat ? 0 : static_cast<int64_t>(first / chunk);
        alignas(32) uint8_t xa[512] = {}, ya[512] = {};
        uint8_t t[256] = {}, t2[256] = {};
        const uint8_t* px = c.ub + x.off + first * es;
        const uint8_t* py = b == nullptr ? scalar : c.ub + y.off + first * es;
        if (!l.flat) {
            fetch(c, x, l, r, xa);
            px = xa;
            if (b != nullptr) {
                fetch(c, y, l, r, ya);
                py = ya;
            }
        }
        if (bad) {
            if (l.flat) {
                for (uint32_t i = 0; i < n; ++i) {
                    uint32_t at = static_cast<uint32_t>(first + i) * es;
                    t[i] = c.tainted_elem(x.off + at, es) || (b != nullptr && c.tainted_elem(y.off + at, es));
                }
            } else {
                fetch_taint(c, x, l, r, t);
                if (b != nullptr) {
                    fetch_taint(c, y, l, r, t2);
                }
                for (uint32_t i = 0; i < n; ++i) {
                    t[i] |= t2[i];
                }
            }
        }
        uint64_t bits[4] = {};
        compare_run(a.dt, mode, px, py, b == nullptr ? 0 : es, n, bits);
        const uint64_t* active = l.flat ? nullptr : l.of(r);
        for (uint32_t k = 0; k < (n + 7) / 8; ++k) {
            uint32_t at = to + static_cast<uint32_t>(first / 8) + k;
            uint8_t value = static_cast<uint8_t>(bits[k >> 3] >> (k & 7) * 8);
            uint8_t on = active == nullptr ? 0xff : static_cast<uint8_t>(active[k >> 3] >> (k & 7) * 8);
            uint8_t tb = 0;
            for (uint32_t i = 0; bad && i < 8 && k * 8 + i < n; ++i) {
                tb |= static_cast<uint8_t>(t[k * 8 + i] << i);
            }
            tb = static_cast<uint8_t>((tb & on) | (on == 0xff ? 0 : c.bits_tainted(at) & ~on));
            c.ub[at] = static_cast<uint8_t>((value & on) | (c.ub[at] & ~on));
            c.set_bits_tainted(at, tb);
        }
    }
    stamp_operand(c, x, l, false);
    if (b != nullptr) {
        stamp_operand(c, y, l, false);
    }
    c.stamp_write(PV, to, bytes);
    count_vector(c, l, es);
}

void select(const char* api, const Opd& dst, const Loc& mask, const Opd& a, const Opd* b, const Scalar& s, int mode,
            const Form& f) {
    Core& c = core();
    uint32_t es = dt_size(dst.dt);
    if ((b == nullptr) != (mode == 1)) {
        fail("dtype", "%s: a scalar source needs VSEL_TENSOR_SCALAR_MODE, and that mode needs a scalar", api);
    }
    Lanes l = resolve_form(c, api, f, es);
    if (mode != 0) {
        c.need_reserved(api);
    }
    if (l.none) {
        return;
    }
    View d = make_view(c, api, "dst", dst, l, true);
    View x = make_view(c, api, "src0", a, l, false), y{};
    check_overlap(api, d, x, l, false);
    if (b != nullptr) {
        y = make_view(c, api, "src1", *b, l, false);
        check_overlap(api, d, y, l, false);
    }
    const uint32_t chunk = 256 / es;
    uint64_t total = l.flat ? static_cast<uint64_t>(l.n) : static_cast<uint64_t>(l.reps) * l.lanes;
    uint64_t bits = mode == 0 ? (total < chunk ? total : chunk) : total;
    if (!l.flat && mode != 0) {  // only bits of active lanes count at the end
        uint64_t rest = l.last[1] ? 128 - static_cast<uint64_t>(__builtin_clzll(l.last[1])) : 64 - static_cast<uint64_t>(__builtin_clzll(l.last[0] | 1));
        bits = (static_cast<uint64_t>(l.reps) - 1) * l.lanes + rest;
    }
    uint64_t bytes = (bits + 7) / 8;
    uint32_t from = c.resolve(api, "selMask", mask, bytes, 32);
    uint64_t out_bytes = l.flat ? static_cast<uint64_t>(l.n) * es : ((static_cast<uint64_t>(l.reps) - 1) * d.rep + 7u * d.blk + 1) * 32;
    if (from < d.off + out_bytes && d.off < from + bytes) {
        fail("overlap", "%s: dst and selMask overlap", api);
    }
    c.issue(PV, api);
    c.check_read(PV, from, bytes, api);
    check_operand(c, api, x, l, false);
    if (b != nullptr) {
        check_operand(c, api, y, l, false);
    }
    check_operand(c, api, d, l, true);
    bool bad = c.tainted(from, bytes) || any_taint(c, x, l) || (b != nullptr && any_taint(c, y, l));

    for (uint64_t first = 0; first < total; first += chunk) {
        uint32_t n = static_cast<uint32_t>(total - first < chunk ? total - first : chunk);
        int64_t r = l.flat ? 0 : static_cast<int64_t>(first / chunk);
        uint32_t mfrom = from + (mode == 0 ? 0 : static_cast<uint32_t>(first / 8));
        alignas(32) uint8_t xa[512] = {}, ya[512] = {}, out[512] = {};
        const uint8_t* px = c.ub + x.off + first * es;
        const uint8_t* py = b == nullptr ? nullptr : c.ub + y.off + first * es;
        if (!l.flat) {
            fetch(c, x, l, r, xa);
            px = xa;
            if (b != nullptr) {
                fetch(c, y, l, r, ya);
                py = ya;
            }
        }
        uint8_t t[256] = {}, ty[256] = {}, tx[256] = {};
        if (bad && !l.flat) {
            fetch_taint(c, x, l, r, tx);
            if (b != nullptr) {
                fetch_taint(c, y, l, r, ty);
            }
        }
        for (uint32_t i = 0; i < n; ++i) {
            uint32_t byte = mfrom + i / 8;
            if (i / 8 >= bytes - (mfrom - from)) {
                break;
            }
            bool one = c.ub[byte] >> (i & 7) & 1;
            const uint8_t* src = one ? px + i * es : py == nullptr ? reinterpret_cast<const uint8_t*>(&s.raw) : py + i * es;
            memcpy(out + i * es, src, es);
            if (bad) {
                uint32_t at = static_cast<uint32_t>(first + i) * es;
                bool sx = l.flat ? c.tainted_elem(x.off + at, es) : tx[i] != 0;
                bool sy = b != nullptr && (l.flat ? c.tainted_elem(y.off + at, es) : ty[i] != 0);
                t[i] = (c.bits_tainted(byte) >> (i & 7) & 1) || (one ? sx : sy);
            }
        }
        if (l.flat) {
            memcpy(c.ub + d.off + first * es, out, static_cast<size_t>(n) * es);
            c.set_taint(d.off + static_cast<uint32_t>(first) * es, static_cast<uint64_t>(n) * es, false);
            for (uint32_t i = 0; bad && i < n; ++i) {
                if (t[i]) {
                    c.set_taint(d.off + static_cast<uint32_t>(first + i) * es, es, true);
                }
            }
        } else {
            deposit(c, d, l, r, out);
            deposit_taint(c, d, l, r, t);
        }
    }
    c.stamp_read(PV, from, bytes);
    stamp_operand(c, x, l, false);
    if (b != nullptr) {
        stamp_operand(c, y, l, false);
    }
    stamp_operand(c, d, l, true);
    count_vector(c, l, es);
}

}  // namespace tw
