// Global memory: bounds, who wrote and read what, and what was never written.
#include <algorithm>

#include "launch.h"

namespace tw {

namespace {

constexpr uint64_t kAtomicBit = 1ull << 47;
constexpr uint64_t kMany = 0x7fff;

uint64_t tag_of(const Core& c, bool atomic) {
    return static_cast<uint64_t>(c.phase & 0xffff) << 48 | (atomic ? kAtomicBit : 0) |
           static_cast<uint64_t>(c.block + 1) << 32;
}
uint64_t block_of(uint64_t tag) {
    return tag >> 32 & 0x7fff;
}
uint64_t phase_of(uint64_t tag) {
    return tag >> 48;
}

// Replaces the tag, keeping the byte mask when block and phase stay the same; returns the old value.
uint64_t exchange_tag(uint64_t& cell, uint64_t tag, uint32_t mask, bool shared) {
    uint64_t old = shared ? __atomic_load_n(&cell, __ATOMIC_SEQ_CST) : cell;
    for (;;) {
        uint64_t keep = (old >> 32) == (tag >> 32) ? (old & kFull) : 0;
        uint64_t next = tag | keep | mask;
        if (!shared) {
            cell = next;
            return old;
        }
        if (__atomic_compare_exchange_n(&cell, &old, next, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
            return old;
        }
    }
}

}  // namespace

std::string name_of(const GmArg& arg, uint64_t address) {
    const Launch& l = launch();
    static const char* const kinds[] = {"input", "output", "workspace"};
    int64_t index = 0;
    for (const GmArg& a : l.args) {
        if (&a == &arg) {
            break;
        }
        index += a.kind == arg.kind;
    }
    char text[96];
    snprintf(text, sizeof(text), "%s %lld, byte %llu", kinds[arg.kind], static_cast<long long>(index),
             static_cast<unsigned long long>(address - arg.base));
    return text;
}

void build_spans(Launch& l) {
    std::vector<int> order;
    for (size_t i = 0; i < l.args.size(); ++i) {
        if (l.args[i].bytes > 0) {
            order.push_back(static_cast<int>(i));
        }
    }
    std::sort(order.begin(), order.end(), [&](int a, int b) { return l.args[a].base < l.args[b].base; });
    std::vector<bool> writable;
    for (int i : order) {
        GmArg& a = l.args[i];
        if (l.spans.empty() || a.base >= l.spans.back().end) {
            l.spans.push_back({a.base, a.base, nullptr});
            writable.push_back(false);
        }
        a.span = static_cast<int32_t>(l.spans.size() - 1);
        l.spans.back().end = std::max(l.spans.back().end, a.base + a.bytes);
        if (a.kind != 0) {
            writable.back() = true;
        }
    }
    for (size_t s = 0; s < l.spans.size(); ++s) {
        if (writable[s]) {
            uint64_t blocks = (l.spans[s].end - l.spans[s].base + 31) / 32;
            l.spans[s].shadow = static_cast<GmBlock*>(calloc(blocks, sizeof(GmBlock)));
        }
    }
    for (const GmArg& a : l.args) {
        if (a.bytes > 0 && a.kind == 0 && l.spans[a.span].shadow != nullptr) {
            Span& s = l.spans[a.span];
            over_gm(s, a.base, a.bytes, [&](uint64_t b, uint32_t m) { s.shadow[b].init |= m; });
        }
    }
}

GmArg& gm_find(const char* api, uint64_t address, uint64_t bytes, bool write) {
    GmArg* near = nullptr;
    for (GmArg& a : launch().args) {
        if (address >= a.base && address < a.base + a.bytes) {
            bool fits = address + bytes <= a.base + a.bytes;
            if (fits && (!write || a.kind != 0)) {
                return a;
            }
            near = near == nullptr || (!write || a.kind != 0) ? &a : near;
        }
    }
    if (near == nullptr) {
        fail("gm-bounds", "%s %s GM outside of every argument of the kernel", api, write ? "writes" : "reads");
    }
    if (write && near->kind == 0) {
        fail("gm-bounds", "%s writes to an input (%s)", api, name_of(*near, address).c_str());
    }
    fail("gm-bounds", "%s: %llu bytes from %s run over its end at %llu", api, static_cast<unsigned long long>(bytes),
         name_of(*near, address).c_str(), static_cast<unsigned long long>(near->bytes));
}

bool gm_byte_tainted(const GmArg& arg, uint64_t address) {
    const Span& s = launch().spans[arg.span];
    if (s.shadow == nullptr) {
        return false;
    }
    uint64_t off = address - s.base;
    return !(s.shadow[off / 32].init >> (off & 31) & 1);
}

bool gm_tainted(const GmArg& arg, uint64_t address, uint64_t bytes) {
    const Span& s = launch().spans[arg.span];
    bool bad = false;
    if (s.shadow != nullptr) {
        over_gm(s, address, bytes, [&](uint64_t b, uint32_t m) { bad = bad || (s.shadow[b].init & m) != m; });
    }
    return bad;
}

void gm_note_read(const char* api, GmArg& arg, uint64_t address, uint64_t bytes, bool scalar) {
    Core& c = core();
    Launch& l = launch();
    c.n.gm_read += bytes;
    __atomic_fetch_add(&arg.read, bytes, __ATOMIC_RELAXED);
    Span& s = l.spans[arg.span];
    if (s.shadow == nullptr) {
        return;
    }
    int pipe = scalar ? PS : PMTE2;
    uint64_t me = tag_of(c, false);
    over_gm(s, address, bytes, [&](uint64_t b, uint32_t m) {
        GmBlock& g = s.shadow[b];
        uint64_t old = l.concurrent ? __atomic_load_n(&g.reader, __ATOMIC_SEQ_CST) : g.reader;
        bool mine = block_of(old) == block_of(me) || block_of(old) == 0 || phase_of(old) != phase_of(me);
        uint64_t tag = mine ? me : (me & ~(0x7fffull << 32)) | kMany << 32;
        exchange_tag(g.reader, tag, m, l.concurrent);
        uint64_t owner = l.concurrent ? __atomic_load_n(&g.owner, __ATOMIC_SEQ_CST) : g.owner;
        if (block_of(owner) == 0 || !(owner & m)) {
            g.rtime = block_of(me) == block_of(tag) ? c.time[pipe] : g.rtime;
            return;
        }
        if (block_of(owner) != block_of(me)) {
            if (phase_of(owner) == phase_of(me)) {
                uint64_t at = s.base + b * 32;
                l.conflict(l.crossing, arg, at, {});
            }
            return;
        }
        int wpipe = static_cast<int>(g.unused);
        if (phase_of(owner) == phase_of(me) && g.wtime > c.vc[pipe][wpipe]) {
            fail("pipe-hazard", "%s on pipe %s reads GM that this block writes on pipe %s, without a flag in between (%s)",
                 api, kPipeNames[pipe], kPipeNames[wpipe], name_of(arg, address).c_str());
        }
        g.rtime = c.time[pipe];
    });
}

void gm_note_write(const char* api, GmArg& arg, uint64_t address, uint64_t bytes, bool atomic, bool scalar) {
    Core& c = core();
    Launch& l = launch();
    c.n.gm_written += bytes;
    __atomic_fetch_add(&arg.written, bytes, __ATOMIC_RELAXED);
    Span& s = l.spans[arg.span];
    int pipe = scalar ? PS : PMTE3;
    uint64_t me = tag_of(c, atomic);
    over_gm(s, address, bytes, [&](uint64_t b, uint32_t m) {
        GmBlock& g = s.shadow[b];
        uint64_t old = exchange_tag(g.owner, me, m, l.concurrent);
        uint64_t reader = l.concurrent ? __atomic_load_n(&g.reader, __ATOMIC_SEQ_CST) : g.reader;
        bool same_phase = phase_of(old) == phase_of(me);
        uint64_t at = s.base + b * 32;
        if (block_of(old) != 0 && block_of(old) != block_of(me) && same_phase &&
            !((old & kAtomicBit) && (me & kAtomicBit))) {
            l.conflict(l.overlap, arg, at, {block_of(old) - 1, block_of(me) - 1});
        }
        if (block_of(reader) != 0 && phase_of(reader) == phase_of(me) && block_of(reader) != block_of(me) &&
            (reader & m)) {
            l.conflict(l.crossing, arg, at, {});
        }
        if (block_of(old) == block_of(me) && same_phase && (old & m) && !(atomic && (old & kAtomicBit)) &&
            g.wtime > c.vc[pipe][g.unused]) {
            fail("pipe-hazard", "%s writes GM that an earlier copy of this block writes too, without a PipeBarrier (%s)",
                 api, name_of(arg, address).c_str());
        }
        int rpipe = PMTE2;
        if (block_of(reader) == block_of(me) && phase_of(reader) == phase_of(me) && (reader & m) &&
            g.rtime > c.vc[pipe][rpipe] && pipe != PS) {
            fail("pipe-hazard", "%s writes GM that this block reads on pipe MTE2, without a flag in between (%s)", api,
                 name_of(arg, address).c_str());
        }
        g.wtime = c.time[pipe];
        g.unused = static_cast<uint32_t>(pipe);
        g.init |= m;
    });
}

uint64_t gm_get(const void* address, uint32_t size) {
    Core& c = core();
    uint64_t at = reinterpret_cast<uint64_t>(address);
    GmArg& a = gm_find("GlobalTensor::GetValue", at, size, false);
    c.issue(PS, "GlobalTensor::GetValue");
    gm_note_read("GlobalTensor::GetValue", a, at, size, true);
    if (gm_tainted(a, at, size)) {
        fail("uninitialised", "GlobalTensor::GetValue reads GM that was never written (%s)", name_of(a, at).c_str());
    }
    uint64_t raw = 0;
    memcpy(&raw, address, size);
    return raw;
}

void gm_set(const void* address, uint32_t size, uint64_t raw) {
    Core& c = core();
    uint64_t at = reinterpret_cast<uint64_t>(address);
    GmArg& a = gm_find("GlobalTensor::SetValue", at, size, true);
    c.issue(PS, "GlobalTensor::SetValue");
    gm_note_write("GlobalTensor::SetValue", a, at, size, false, true);
    memcpy(const_cast<void*>(address), &raw, size);
}

}  // namespace tw
