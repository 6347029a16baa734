// Reductions. A tainted lane taints its result; a result of a whole tensor may not be tainted at all.
#include <vector>

#include "reduce.h"

namespace tw {

namespace {

void check_stride(const char* api, const Opd& dst, const Opd& src) {
    if (dst.rep > 65535 || src.rep > 65535 || src.blk > 65535) {
        fail("stride", "%s: a stride is not in 0..65535", api);
    }
}

// Fast path for floats without taint or index: `levels` of a tree over neighbours, in place. Absent lanes hold an
// identity that changes no bit (-0 for sums).
void fold(DT dt, Red red, float* v, uint32_t n, uint32_t levels) {
    for (uint32_t k = 0; k < levels; ++k) {
        n /= 2;
        for (uint32_t i = 0; i < n; ++i) {
            float a = v[2 * i], b = v[2 * i + 1];
            if (red == Red::Sum) {
                v[i] = a + b;
            } else if (red == Red::Max) {
                v[i] = a != a ? a : (b != b ? b : (b > a ? b : a));
            } else {
                v[i] = a != a ? a : (b != b ? b : (b < a ? b : a));
            }
        }
        if (dt != F32 && red == Red::Sum) {
            uint16_t h[128];
            store_floats(dt, v, h, n);
            load_floats(dt, h, v, n);
        }
    }
}

void floats_of(Core& c, DT dt, Red red, const View& s, const Lanes& l, int64_t r, float* v) {
    alignas(32) uint8_t in[512];
    fetch(c, s, l, r, in);
    load_floats(dt, in, v, l.lanes);
    const uint64_t* m = l.of(r);
    float none = red == Red::Sum ? -0.0f : red == Red::Max ? -__builtin_inff() : __builtin_inff();
    for (uint32_t i = 0; i < l.lanes; ++i) {
        v[i] = m[i >> 6] >> (i & 63) & 1 ? v[i] : none;
    }
}

uint32_t log2_of(uint32_t n) {
    return 31 - static_cast<uint32_t>(__builtin_clz(n));
}

struct Repeat1 {
    std::vector<Value> v;
    std::vector<bool> on;
};

Repeat1 lanes_of(Core& c, DT dt, const View& s, const Lanes& l, int64_t r) {
    Repeat1 out;
    out.v.resize(l.lanes);
    out.on.resize(l.lanes);
    alignas(32) uint8_t in[512];
    uint8_t t[256];
    fetch(c, s, l, r, in);
    fetch_taint(c, s, l, r, t);
    const uint64_t* m = l.of(r);
    for (uint32_t i = 0; i < l.lanes; ++i) {
        out.on[i] = m[i >> 6] >> (i & 63) & 1;
        out.v[i] = load(dt, in + i * s.esize);
        out.v[i].tainted = t[i] != 0;
        out.v[i].index = i;
    }
    return out;
}

// Common frame of the per-repeat reductions: dst spans `out_unit` bytes per stride unit and `out_bytes` per repeat.
// `quick` (0: none) is how many tree levels give one result per `group` lanes.
template <typename F>
void per_repeat(const char* api, Red red, const Opd& dst, const Opd& src, const Form& f, uint32_t align,
                uint32_t out_unit, uint32_t out_bytes, uint32_t quick, F&& body) {
    Core& c = core();
    check_stride(api, dst, src);
    Lanes l = resolve_form(c, api, f, dt_size(src.dt));
    if (l.none) {
        return;
    }
    View s = make_view(c, api, "src", src, l, false);
    if (l.reps > 1 && dst.rep == 0) {
        fail("stride", "%s: dstRepStride 0 with %lld repeats", api, static_cast<long long>(l.reps));
    }
    uint64_t pitch = static_cast<uint64_t>(dst.rep) * out_unit;
    uint64_t extent = (static_cast<uint64_t>(l.reps) - 1) * pitch + out_bytes;
    uint32_t to = c.resolve(api, "dst", dst.loc, extent, align);
    c.issue(PV, api);
    check_operand(c, api, s, l, false);
    for (int64_t r = 0; r < l.reps; ++r) {
        c.check_write(PV, to + static_cast<uint32_t>(static_cast<uint64_t>(r) * pitch), out_bytes, api);
    }
    bool fast = quick > 0 && is_float(src.dt) && !any_taint(c, s, l);
    uint32_t group = 1u << quick, es = s.esize;
    for (int64_t r = 0; r < l.reps; ++r) {
        uint32_t at = to + static_cast<uint32_t>(static_cast<uint64_t>(r) * pitch);
        if (fast) {
            float v[128];
            floats_of(c, src.dt, red, s, l, r, v);
            fold(src.dt, red, v, l.lanes, quick);
            const uint64_t* m = l.of(r);
            for (uint32_t g = 0; g < l.lanes / group; ++g) {
                bool any = false;
                for (uint32_t i = g * group; i < (g + 1) * group && !any; ++i) {
                    any = m[i >> 6] >> (i & 63) & 1;
                }
                if (any || chip().arch == 3510) {  // a group without active lanes: 2201 and 2002 leave dst
                    float x = any ? v[g] : identity(src.dt, red).f;
                    store_floats(src.dt, &x, c.ub + at + g * es, 1);
                    c.set_taint(at + g * es, es, false);
                }
            }
        } else {
            body(c, lanes_of(c, src.dt, s, l, r), at);
        }
        c.stamp_write(PV, at, out_bytes);
    }
    stamp_operand(c, s, l, false);
    count_vector(c, l, s.esize);
}

}  // namespace

void reduce_repeat(const char* api, Red red, const Opd& dst, const Opd& src, int order, const Form& f) {
    DT dt = src.dt;
    uint32_t es = dt_size(dt);
    if (red != Red::Sum && order >= 2 && chip().arch == 2002) {
        fail("dtype", "%s: ORDER_ONLY_VALUE and ORDER_ONLY_INDEX do not exist on this chip", api);
    }
    bool pair = red != Red::Sum && order < 2, only_index = red != Red::Sum && order == 3;
    uint32_t unit = pair ? 2 * es : only_index ? 4 : es;
    uint32_t quick = pair || only_index ? 0 : log2_of(256 / es);
    per_repeat(api, red, dst, src, f, unit, unit, unit, quick, [&](Core& c, Repeat1 lanes, uint32_t at) {
        bool any;
        Value v = tree(dt, red, std::move(lanes.v), std::move(lanes.on), any);
        if (only_index) {
            memcpy(c.ub + at, &v.index, 4);
            c.set_taint(at, 4, v.tainted);
            return;
        }
        uint32_t value_at = at, index_at = at + es;
        if (pair && order == 1) {
            std::swap(value_at, index_at);
        }
        put(c, dt, value_at, v);
        if (pair) {
            memcpy(c.ub + index_at, &v.index, es);
            c.set_taint(index_at, es, v.tainted);
        }
    });
}

void reduce_block(const char* api, Red red, const Opd& dst, const Opd& src, const Form& f) {
    DT dt = src.dt;
    uint32_t es = dt_size(dt), per = 32 / es;
    per_repeat(api, red, dst, src, f, 8 * es, 8 * es, 8 * es, log2_of(per), [&](Core& c, const Repeat1& lanes, uint32_t at) {
        for (uint32_t b = 0; b < 8; ++b) {
            bool any;
            auto first = static_cast<std::ptrdiff_t>(b * per), last = static_cast<std::ptrdiff_t>((b + 1) * per);
            Value v = tree(dt, red, {lanes.v.begin() + first, lanes.v.begin() + last},
                           {lanes.on.begin() + first, lanes.on.begin() + last}, any);
            if (any) {
                put(c, dt, at + b * es, v);
            } else if (chip().arch == 3510) {
                put(c, dt, at + b * es, identity(dt, red));
            }
        }
    });
}

void reduce_pair(const char* api, const Opd& dst, const Opd& src, const Form& f) {
    DT dt = src.dt;
    uint32_t es = dt_size(dt);
    per_repeat(api, Red::Sum, dst, src, f, 32, 128, 128, 1, [&](Core& c, const Repeat1& lanes, uint32_t at) {
        for (uint32_t p = 0; p < 128 / es; ++p) {
            bool any;
            Value v = tree(dt, Red::Sum, {lanes.v[2 * p], lanes.v[2 * p + 1]}, {lanes.on[2 * p], lanes.on[2 * p + 1]}, any);
            if (any) {
                put(c, dt, at + p * es, v);
            } else if (chip().arch == 3510) {
                put(c, dt, at + p * es, Value{});
            }
        }
    });
}

void reduce_all(const char* api, Red red, const Loc& dst, const Opd& src, const Loc& tmp, bool index, const Form& f) {
    Core& c = core();
    DT dt = src.dt;
    uint32_t es = dt_size(dt), per = 256 / es, block = 32 / es;
    Form form = f;
    if (f.kind == Form::COUNT) {  // contiguous repeats, the last one partial
        if (f.count < 0 || f.count > kUbBytes) {
            fail("count", "%s: count %lld", api, static_cast<long long>(f.count));
        }
        c.counter_mode = true;
        form.kind = Form::CONT;
    }
    Lanes l = resolve_form(c, api, form, es);
    if (f.kind == Form::COUNT) {
        c.counter_mode = false;
        c.mask[0] = c.mask[1] = ~0ull;
    }
    if (l.none) {
        return;
    }
    uint32_t arch = chip().arch;
    uint64_t need = 0, reps = static_cast<uint64_t>(l.reps);
    auto up = [](uint64_t n, uint64_t to) { return (n + to - 1) / to * to; };
    if (red == Red::Sum) {
        need = f.kind == Form::COUNT && arch == 2201 ? 0 : arch == 3510 ? 0 : up(reps, block);
    } else if (arch != 3510) {
        if (!index) {
            need = up(2 * reps, block);
        } else {
            uint64_t o1 = 2 * reps, o2 = 2 * ((o1 + per - 1) / per);
            need = up(o1, block) + up(o2, block) + (o2 > 2 ? up(2 * ((o2 + per - 1) / per), block) : 0);
        }
    }
    if (need * es > tmp.bytes) {
        fail("tmp-size", "%s: sharedTmpBuffer holds %u elements, %llu are needed", api, tmp.bytes / es,
             static_cast<unsigned long long>(need));
    }
    View s = make_view(c, api, "src", src, l, false);
    uint32_t out_bytes = index ? 2 * es : es;
    uint32_t to = c.resolve(api, "dst", dst, out_bytes, out_bytes);
    uint32_t work = need > 0 ? c.resolve(api, "sharedTmpBuffer", tmp, need * es, 32) : 0;
    c.issue(PV, api);
    check_operand(c, api, s, l, false);
    c.check_write(PV, to, out_bytes, api);
    if (need > 0) {
        c.check_write(PV, work, need * es, api);
    }
    std::vector<Value> partial;
    bool fast = is_float(dt) && !index && !any_taint(c, s, l);
    for (int64_t r = 0; r < l.reps; ++r) {
        if (fast) {
            float lanes[128];
            floats_of(c, dt, red, s, l, r, lanes);
            fold(dt, red, lanes, l.lanes, log2_of(l.lanes));
            partial.push_back({lanes[0], 0, false, 0});
            continue;
        }
        Repeat1 lanes = lanes_of(c, dt, s, l, r);
        bool any;
        Value v = tree(dt, red, std::move(lanes.v), std::move(lanes.on), any);
        v.index += static_cast<uint32_t>(r) * per;
        if (any) {
            partial.push_back(v);
        }
    }
    Value total;
    if (red == Red::Sum && f.kind == Form::COUNT && arch == 2201) {  // one repeat after the other
        total = partial[0];
        for (size_t i = 1; i < partial.size(); ++i) {
            total = merge(dt, red, total, partial[i]);
        }
    } else {
        bool any;
        std::vector<bool> on(partial.size(), true);
        total = tree(dt, red, std::move(partial), std::move(on), any);
    }
    if (total.tainted) {
        fail("uninitialised", "%s reads UB lanes that were never written or come from padding", api);
    }
    if (need > 0) {
        c.set_taint(work, need * es, true);  // its contents are not documented
    }
    put(c, dt, to, total);
    if (index) {
        memcpy(c.ub + to + es, &total.index, es);
        c.set_taint(to + es, es, false);
    }
    stamp_operand(c, s, l, false);
    c.stamp_write(PV, to, out_bytes);
    if (need > 0) {
        c.stamp_write(PV, work, need * es);
    }
    count_vector(c, l, es);
}

}  // namespace tw
