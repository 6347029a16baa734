// Index vectors, Brcb, Copy, Gather, GatherMask and transpositions.
#include "lanes.h"

namespace tw {

namespace {

template <typename T>
void iota(void* to, const Scalar& first, int64_t from, uint32_t n) {
    T base;
    memcpy(&base, &first.raw, sizeof(T));
    for (uint32_t i = 0; i < n; ++i) {
        static_cast<T*>(to)[i] = static_cast<T>(base + static_cast<T>(from + i));
    }
}

void iota_dt(DT dt, void* to, const Scalar& first, int64_t from, uint32_t n) {
    switch (dt) {
        case F32: return iota<float>(to, first, from, n);
        case F16:
            for (uint32_t i = 0; i < n; ++i) {
                static_cast<uint16_t*>(to)[i] = twin_f2h(twin_h2f(static_cast<uint16_t>(first.raw)) + static_cast<float>(from + i));
            }
            return;
        case I8: return iota<int8_t>(to, first, from, n);
        case I16: return iota<int16_t>(to, first, from, n);
        case I32: return iota<int32_t>(to, first, from, n);
        default: return iota<int64_t>(to, first, from, n);
    }
}

void disjoint(const char* api, const char* what, uint64_t a, uint64_t an, uint64_t b, uint64_t bn) {
    if (a < b + bn && b < a + an) {
        fail("overlap", "%s: %s overlap in UB", api, what);
    }
}

uint64_t rep_extent(int64_t reps, uint64_t rep, uint64_t last_bytes) {
    return reps == 0 ? 0 : (static_cast<uint64_t>(reps) - 1) * rep * 32 + last_bytes;
}

}  // namespace

void index_fill(const char* api, const Opd& dst, const Scalar& first, const Form& f) {
    Core& c = core();
    uint32_t es = dt_size(dst.dt);
    Lanes l = resolve_form(c, api, f, es);
    if (l.none) {
        return;
    }
    View d = make_view(c, api, "dst", dst, l, true);
    c.issue(PV, api);
    check_operand(c, api, d, l, true);
    if (l.flat) {
        iota_dt(dst.dt, c.ub + d.off, first, 0, static_cast<uint32_t>(l.n));
        c.set_taint(d.off, static_cast<uint64_t>(l.n) * es, false);
    } else {
        alignas(32) uint8_t out[512];
        const uint8_t clean[256] = {};
        for (int64_t r = 0; r < l.reps; ++r) {
            iota_dt(dst.dt, out, first, r * l.lanes, l.lanes);
            deposit(c, d, l, r, out);
            deposit_taint(c, d, l, r, clean);
        }
    }
    stamp_operand(c, d, l, true);
    count_vector(c, l, es);
}

void brcb(const Opd& dst, const Opd& src, int32_t repeat) {
    Core& c = core();
    const char* api = "Brcb";
    if (repeat < 0 || repeat > 255) {
        fail("repeat", "Brcb: repeatTime %d is not in 0..255", repeat);
    }
    c.mask[0] = c.mask[1] = ~0ull;
    if (repeat == 0) {
        return;
    }
    if (dst.blk == 0) {
        fail("stride", "Brcb: dstBlkStride 0 is undefined");
    }
    if (chip().arch == 2002) {
        c.need_reserved(api);
    }
    uint32_t es = dt_size(dst.dt);
    uint64_t in_bytes = static_cast<uint64_t>(repeat) * 8 * es;
    uint64_t out_bytes = rep_extent(repeat, dst.rep, (7ull * dst.blk + 1) * 32);
    uint32_t from = c.resolve(api, "src", src.loc, in_bytes, 32);
    uint32_t to = c.resolve(api, "dst", dst.loc, out_bytes, 32);
    disjoint(api, "src and dst", from, in_bytes, to, out_bytes);
    c.issue(PV, api);
    c.check_read(PV, from, in_bytes, api);
    for (int32_t r = 0; r < repeat; ++r) {
        for (uint32_t b = 0; b < 8; ++b) {
            uint32_t block = (to >> 5) + static_cast<uint32_t>(r) * dst.rep + b * dst.blk;
            uint32_t at = from + (static_cast<uint32_t>(r) * 8 + b) * es;
            c.check_write_block(PV, block, kFull, api);
            bool bad = c.tainted_elem(at, es);
            for (uint32_t k = 0; k < 32; k += es) {
                memcpy(c.ub + block * 32 + k, c.ub + at, es);
            }
            c.set_taint(block * 32, 32, bad);
            c.stamp_write_block(PV, block, kFull);
        }
    }
    c.stamp_read(PV, from, in_bytes);
    c.n.elements += static_cast<uint64_t>(repeat) * 8 * (32 / es);
    c.n.repeats += static_cast<uint64_t>(repeat);
}

void copy_vec(const Opd& dst, const Opd& src, const Form& f) {
    Core& c = core();
    const char* api = "Copy";
    uint32_t es = dt_size(dst.dt);
    Form form = f;
    bool counter = c.counter_mode;
    if (f.kind != Form::COUNT && counter) {  // here the count is per repeat
        uint64_t per = f.kind == Form::REG ? c.mask[0] : static_cast<uint64_t>(f.count);
        form.kind = Form::CONT;
        form.count = static_cast<int64_t>(per);
        c.counter_mode = false;
    }
    Lanes l = resolve_form(c, api, form, es);
    c.counter_mode = f.kind != Form::COUNT && counter;
    if (l.none) {
        return;
    }
    View d = make_view(c, api, "dst", dst, l, true);
    View s = make_view(c, api, "src", src, l, false);
    check_overlap(api, d, s, l, false);
    c.issue(PV, api);
    check_operand(c, api, s, l, false);
    check_operand(c, api, d, l, true);
    if (l.flat) {
        for (int64_t i = 0; i < l.n; ++i) {
            uint32_t k = static_cast<uint32_t>(i) * es;
            bool bad = c.tainted_elem(s.off + k, es);
            memmove(c.ub + d.off + k, c.ub + s.off + k, es);
            c.set_taint(d.off + k, es, bad);
        }
    } else {
        alignas(32) uint8_t buf[512] = {};
        uint8_t t[256];
        for (int64_t r = 0; r < l.reps; ++r) {
            fetch(c, s, l, r, buf);
            fetch_taint(c, s, l, r, t);
            deposit(c, d, l, r, buf);
            deposit_taint(c, d, l, r, t);
        }
    }
    stamp_operand(c, s, l, false);
    stamp_operand(c, d, l, true);
    count_vector(c, l, es);
}

void gather(const Opd& dst, const Loc& src, const Loc& offsets, uint32_t base, const Form& f) {
    Core& c = core();
    const char* api = "Gather";
    uint32_t es = dt_size(dst.dt);
    Lanes l = resolve_form(c, api, f, es < 2 ? 2 : es);
    if (l.none) {
        return;
    }
    View d = make_view(c, api, "dst", dst, l, true);
    int64_t total = l.flat ? l.n : l.reps * l.lanes;
    uint64_t off_bytes = static_cast<uint64_t>(total) * 4;
    if (!l.flat) {
        int64_t rest = l.last[1] ? 128 - __builtin_clzll(l.last[1]) : 64 - __builtin_clzll(l.last[0] | 1);
        off_bytes = static_cast<uint64_t>((l.reps - 1) * l.lanes + rest) * 4;
    }
    uint32_t table = c.resolve(api, "srcOffset", offsets, off_bytes, 32);
    uint32_t from = c.resolve(api, "src", src, base, 32);
    if (base % es != 0) {
        fail("alignment", "Gather: srcBaseOffset %u is not a multiple of the element size", base);
    }
    uint64_t out_bytes = l.flat ? static_cast<uint64_t>(l.n) * es : rep_extent(l.reps, d.rep, 256);
    disjoint(api, "src and dst", from, src.bytes, d.off, out_bytes);
    disjoint(api, "srcOffset and dst", table, off_bytes, d.off, out_bytes);
    c.issue(PV, api);
    c.check_read(PV, table, off_bytes, api);
    check_operand(c, api, d, l, true);
    alignas(32) uint8_t out[512] = {};
    uint8_t t[256] = {};
    const uint32_t chunk = l.flat ? 64 : l.lanes;
    for (int64_t first = 0; first < total; first += chunk) {
        uint32_t n = static_cast<uint32_t>(total - first < chunk ? total - first : chunk);
        int64_t r = l.flat ? 0 : first / chunk;
        for (uint32_t i = 0; i < n; ++i) {
            if (!l.flat && !(l.of(r)[i >> 6] >> (i & 63) & 1)) {
                continue;
            }
            uint32_t entry = table + static_cast<uint32_t>(first + i) * 4, off;
            memcpy(&off, c.ub + entry, 4);
            t[i] = c.tainted_elem(entry, 4);
            if (t[i]) {
                continue;
            }
            if (off % es != 0) {
                fail("alignment", "Gather: offset %u of lane %lld is not a multiple of the element size", off,
                     static_cast<long long>(first + i));
            }
            uint64_t at = static_cast<uint64_t>(base) + off;
            if (at + es > src.bytes) {
                fail("count", "Gather: lane %lld reads byte %llu of a source of %u bytes", static_cast<long long>(first + i),
                     static_cast<unsigned long long>(at), src.bytes);
            }
            uint32_t here = from + static_cast<uint32_t>(at), block = here >> 5, m = byte_mask(here & 31, (here & 31) + es);
            c.check_read_block(PV, block, m, api);
            c.stamp_read_block(PV, block, m);
            t[i] = c.tainted_elem(here, es);
            memcpy(out + i * es, c.ub + here, es);
        }
        if (l.flat) {
            uint32_t at = d.off + static_cast<uint32_t>(first) * es;
            memcpy(c.ub + at, out, static_cast<size_t>(n) * es);
            c.set_taint(at, static_cast<uint64_t>(n) * es, false);
            for (uint32_t i = 0; i < n; ++i) {
                if (t[i]) {
                    c.set_taint(at + i * es, es, true);
                }
            }
        } else {
            deposit(c, d, l, r, out);
            deposit_taint(c, d, l, r, t);
        }
    }
    c.stamp_read(PV, table, off_bytes);
    stamp_operand(c, d, l, true);
    count_vector(c, l, es);
}

void gather_mask(const Opd& dst, const Opd& src, const Loc* pattern, uint32_t builtin, bool reduce_mode, uint32_t mask,
                 uint32_t repeat, uint32_t pattern_rep, uint64_t* kept) {
    Core& c = core();
    const char* api = "GatherMask";
    uint32_t es = dt_size(dst.dt), lanes = 256 / es, per = reduce_mode ? mask : lanes;
    uint32_t top = chip().arch == 2002 ? 6 : 7;
    if (pattern == nullptr && (builtin < 1 || builtin > top)) {
        fail("mask", "GatherMask: built-in pattern %u is not in 1..%u", builtin, top);
    }
    if (reduce_mode && chip().arch == 2002) {  // there the mask is the total
        repeat = 1;
    }
    c.counter_mode = false;
    c.mask[0] = c.mask[1] = ~0ull;
    *kept = 0;
    if (repeat == 0 || per == 0) {
        return;
    }
    uint32_t eb = 32 / es;
    uint64_t last = (static_cast<uint64_t>(per - 1) / eb * src.blk) * 32 + ((per - 1) % eb + 1) * es;
    uint64_t in_bytes = rep_extent(repeat, src.rep, last);
    uint32_t from = c.resolve(api, "src0", src.loc, in_bytes, 32);
    uint32_t table = 0;
    uint64_t table_bytes = 0;
    if (pattern != nullptr) {
        table_bytes = rep_extent(repeat, pattern_rep, (per + 7) / 8);
        table = c.resolve(api, "src1Pattern", *pattern, table_bytes, 32);
    }
    c.issue(PV, api);
    if (pattern != nullptr) {
        c.check_read(PV, table, table_bytes, api);
        c.stamp_read(PV, table, table_bytes);
    }
    auto chosen = [&](uint32_t r, uint32_t i) {
        if (pattern != nullptr) {
            uint32_t byte = table + r * pattern_rep * 32 + i / 8;
            if (c.bits_tainted(byte) >> (i & 7) & 1) {
                fail("uninitialised", "GatherMask: the pattern has bits that were never written");
            }
            return (c.ub[byte] >> (i & 7) & 1) != 0;
        }
        switch (builtin) {
            case 1: return i % 2 == 0;
            case 2: return i % 2 == 1;
            case 7: return true;
            default: return i % 4 == builtin - 3;
        }
    };
    // First pass: how many are kept, so that dst can be checked before anything is written.
    uint64_t total = 0;
    for (uint32_t r = 0; r < repeat; ++r) {
        for (uint32_t i = 0; i < per; ++i) {
            total += chosen(r, i) ? 1 : 0;
        }
    }
    uint32_t to = c.resolve(api, "dst", dst.loc, total * es, 32);
    disjoint(api, "src0 and dst", from, in_bytes, to, total * es);
    disjoint(api, "src1Pattern and dst", table, table_bytes, to, total * es);
    c.check_write(PV, to, total * es, api);
    uint32_t out = to;
    for (uint32_t r = 0; r < repeat; ++r) {
        for (uint32_t i = 0; i < per; ++i) {
            uint32_t at = from + (r * src.rep + i / eb * src.blk) * 32 + i % eb * es;
            if (i % eb == 0) {
                uint32_t m = byte_mask(0, per - i < eb ? (per - i) * es : 32);
                c.check_read_block(PV, at >> 5, m, api);
                c.stamp_read_block(PV, at >> 5, m);
            }
            if (chosen(r, i)) {
                memcpy(c.ub + out, c.ub + at, es);
                c.set_taint(out, es, c.tainted_elem(at, es));
                out += es;
            }
        }
    }
    c.stamp_write(PV, to, total * es);
    *kept = total;
    c.n.elements += static_cast<uint64_t>(repeat) * per;
    c.n.repeats += static_cast<uint64_t>(repeat) * ((per + lanes - 1) / lanes);
}

void transpose16(const Loc& dst, const Loc& src) {
    Core& c = core();
    const char* api = "Transpose";
    uint32_t from = c.resolve(api, "src", src, 512, 32), to = c.resolve(api, "dst", dst, 512, 32);
    if (from != to) {
        disjoint(api, "src and dst", from, 512, to, 512);
    }
    c.issue(PV, api);
    c.check_read(PV, from, 512, api);
    c.check_write(PV, to, 512, api);
    uint16_t in[256], out[256];
    bool t[256];
    memcpy(in, c.ub + from, 512);
    for (uint32_t i = 0; i < 256; ++i) {
        out[i % 16 * 16 + i / 16] = in[i];
        t[i % 16 * 16 + i / 16] = c.tainted_elem(from + i * 2, 2);
    }
    memcpy(c.ub + to, out, 512);
    for (uint32_t i = 0; i < 256; ++i) {
        c.set_taint(to + i * 2, 2, t[i]);
    }
    c.stamp_read(PV, from, 512);
    c.stamp_write(PV, to, 512);
    c.n.elements += 256;
    c.n.repeats += 2;
}

namespace {
Loc from_phys(Core& c, const char* what, uint64_t address) {
    uint32_t buf = static_cast<uint32_t>(address >> 32 & 0xff), off = static_cast<uint32_t>(address);
    if (!(address >> 63) || buf == 0 || buf >= static_cast<uint32_t>(c.nbufs)) {
        fail("alignment", "TransDataTo5HD: %s holds something that is not a UB address from GetPhyAddr", what);
    }
    Loc t;
    t.off = off;
    t.bytes = c.bufs[buf].off + c.bufs[buf].len - off;
    t.gen = c.bufs[buf].gen;
    t.buf = static_cast<uint8_t>(buf);
    return t;
}
}  // namespace

void trans5hd(const uint64_t* dst, const uint64_t* src, uint32_t es, bool dst_high, bool src_high, uint32_t repeat,
              uint32_t dst_rep, uint32_t src_rep) {
    Core& c = core();
    const char* api = "TransDataTo5HD";
    if (repeat == 0) {
        return;
    }
    if (repeat == 1 && (dst_rep != 0 || src_rep != 0)) {
        fail("stride", "TransDataTo5HD: with one repeat the strides must be 0 (the chip adds them to the start)");
    }
    uint32_t from[16], to[16];
    for (int i = 0; i < 16; ++i) {
        from[i] = c.resolve(api, "srcList", from_phys(c, "srcList", src[i]), rep_extent(repeat, src_rep, 32), 32);
        to[i] = c.resolve(api, "dstList", from_phys(c, "dstList", dst[i]), rep_extent(repeat, dst_rep, 32), 32);
    }
    c.issue(PV, api);
    auto bytes = [&](bool high) { return es == 1 ? (high ? byte_mask(16, 32) : byte_mask(0, 16)) : kFull; };
    for (uint32_t r = 0; r < repeat; ++r) {
        uint8_t in[16][32], out[16][32];
        bool tin[16][32], tout[16][32];
        for (int i = 0; i < 16; ++i) {
            uint32_t at = from[i] + r * src_rep * 32;
            c.check_read_block(PV, at >> 5, bytes(src_high), api);
            memcpy(in[i], c.ub + at, 32);
            for (uint32_t k = 0; k < 32; ++k) {
                tin[i][k] = c.tainted_elem(at + k, 1);
            }
        }
        auto put = [&](uint32_t di, uint32_t dk, uint32_t si, uint32_t sk) {
            memcpy(out[di] + dk * es, in[si] + sk * es, es);
            memcpy(tout[di] + dk * es, tin[si] + sk * es, es);
        };
        for (uint32_t i = 0; i < 16; ++i) {
            for (uint32_t k = 0; k < 16; ++k) {
                if (es == 2) {
                    put(i, k, k, i);
                } else if (es == 4) {
                    if (k < 8) {
                        put(2 * k + i / 8, i % 8, i, k);  // source row i, column k
                    }
                } else {
                    put(i, k + (dst_high ? 16 : 0), k, i + (src_high ? 16 : 0));
                }
            }
        }
        for (int i = 0; i < 16; ++i) {
            uint32_t at = to[i] + r * dst_rep * 32, m = bytes(dst_high);
            c.check_write_block(PV, at >> 5, m, api);
            for (uint32_t k = 0; k < 32; ++k) {
                if (m >> k & 1) {
                    c.ub[at + k] = out[i][k];
                    c.set_taint(at + k, 1, tout[i][k]);
                }
            }
        }
        for (int i = 0; i < 16; ++i) {
            c.stamp_read_block(PV, (from[i] + r * src_rep * 32) >> 5, bytes(src_high));
            c.stamp_write_block(PV, (to[i] + r * dst_rep * 32) >> 5, bytes(dst_high));
        }
    }
    c.n.elements += static_cast<uint64_t>(repeat) * 512 / es;
    c.n.repeats += repeat;
}

}  // namespace tw
