// Events, flags, barriers, the mask register and scalar access to UB.
#include "core.h"

namespace tw {

namespace {

// Pipes of an event: source and destination.
void event_pipes(uint8_t event, int& src, int& dst) {
    static const int8_t table[kEvents][2] = {
        {-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}, {PMTE2, PV}, {PV, PMTE2}, {PMTE3, PV}, {PV, PMTE3}, {-1, -1}, {-1, -1},
        {PV, PV}, {-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}, {PMTE3, PMTE2},
        {PMTE2, PMTE3}, {PS, PV}, {PV, PS}, {PS, PMTE2}, {PMTE2, PS}, {PS, PMTE3}, {PMTE3, PS}, {-1, -1}, {-1, -1},
        {-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}, {-1, -1},
    };
    src = event < kEvents ? table[event][0] : -1;
    dst = event < kEvents ? table[event][1] : -1;
}

}  // namespace

const char* event_name(uint8_t event) {
    static thread_local char text[24];
    int src, dst;
    event_pipes(event, src, dst);
    snprintf(text, sizeof(text), "%s_%s", src < 0 ? "?" : kPipeNames[src], dst < 0 ? "?" : kPipeNames[dst]);
    return text;
}

void raise_flag(Core& c, uint8_t event, int32_t id) {
    int src, dst;
    event_pipes(event, src, dst);
    Flag& f = c.flags[event][id];
    if (f.set) {
        fail("flag-pairing", "SetFlag<%s>(%d): the flag is already set and nobody waited for it", event_name(event), id);
    }
    f.set = true;
    for (int p = 0; p < kPipes; ++p) {
        f.vc[p] = c.vc[src][p];
    }
    f.vc[src] = c.time[src];
    ++c.n.flags;
}

void lower_flag(Core& c, uint8_t event, int32_t id) {
    int src, dst;
    event_pipes(event, src, dst);
    Flag& f = c.flags[event][id];
    if (!f.set) {
        fail("flag-pairing", "WaitFlag<%s>(%d): no SetFlag before it; the core would hang", event_name(event), id);
    }
    f.set = false;
    for (int p = 0; p < kPipes; ++p) {
        if (f.vc[p] > c.vc[dst][p]) {
            c.vc[dst][p] = f.vc[p];
        }
    }
}

namespace {
void check_id(Core& c, const char* what, uint8_t event, int32_t id) {
    if (id < 0 || id > 7) {
        fail("event-id", "%s<%s>: event id %d is not in 0..7", what, event_name(event), id);
    }
    if (id >= 6 && !(c.event_given[event] >> id & 1)) {
        fail("event-id", "%s<%s>: event id %d is kept by the framework; pick 0..5 or ask TPipe for one", what,
             event_name(event), id);
    }
}
}  // namespace

// ---- events and flags

int8_t event_alloc(uint8_t event) {
    Core& c = core();
    for (int id = 0; id < 8; ++id) {
        if (!(c.event_used[event] >> id & 1)) {
            c.event_used[event] |= static_cast<uint8_t>(1u << id);
            c.event_given[event] |= static_cast<uint8_t>(1u << id);
            return static_cast<int8_t>(id);
        }
    }
    fail("event-id", "all 8 event ids of %s are in use (queues hold one per buffer that is enqueued or freed)",
         event_name(event));
}

void event_release(uint8_t event, int32_t id) {
    Core& c = core();
    if (id < 0 || id > 7 || !(c.event_used[event] >> id & 1)) {
        fail("event-id", "ReleaseEventID<%s>(%d): the id was not allocated", event_name(event), id);
    }
    c.event_used[event] &= static_cast<uint8_t>(~(1u << id));
}

int8_t event_fetch(uint8_t event) {
    Core& c = core();
    for (int id = 0; id < 8; ++id) {
        if (!(c.event_used[event] >> id & 1)) {
            c.event_given[event] |= static_cast<uint8_t>(1u << id);
            return static_cast<int8_t>(id);
        }
    }
    fail("event-id", "FetchEventID<%s>: no free event id", event_name(event));
}

void flag_set(uint8_t event, int32_t id) {
    Core& c = core();
    check_id(c, "SetFlag", event, id);
    raise_flag(c, event, id);
}

void flag_wait(uint8_t event, int32_t id) {
    Core& c = core();
    check_id(c, "WaitFlag", event, id);
    lower_flag(c, event, id);
}

void pipe_barrier(int pipe) {
    Core& c = core();
    ++c.n.barriers;
    if (pipe == 6) {
        c.order_all();
    } else {
        c.vc[pipe][pipe] = c.time[pipe];
    }
}

// ---- mask register

void mask_counter(bool on) {
    core().counter_mode = on;
}
void mask_reset() {
    Core& c = core();
    c.mask[0] = c.mask[1] = ~0ull;
}
void mask_set(uint64_t high, uint64_t low, bool counter, uint32_t esize) {
    Core& c = core();
    if (counter && high != 0) {
        fail("mask", "SetVectorMask in COUNTER mode: maskHigh must be 0");
    }
    if (!counter && (low | (esize <= 2 ? high : 0)) == 0) {
        fail("mask", "SetVectorMask: an empty mask");
    }
    c.mask[0] = low;
    c.mask[1] = high;
}

// ---- scalar access to UB

uint64_t ub_get(const Loc& t, uint64_t index, uint32_t size) {
    Core& c = core();
    uint32_t off = c.resolve("GetValue", "the tensor", t, (index + 1) * size, 1) + static_cast<uint32_t>(index * size);
    c.issue(PS, "GetValue");
    c.check_read(PS, off, size, "GetValue");
    c.stamp_read(PS, off, size);
    if (c.tainted_elem(off, size)) {
        fail("uninitialised", "GetValue(%llu) reads UB that was never written", static_cast<unsigned long long>(index));
    }
    uint64_t raw = 0;
    memcpy(&raw, c.ub + off, size);
    return raw;
}

void ub_set(const Loc& t, uint64_t index, uint32_t size, uint64_t raw) {
    Core& c = core();
    uint32_t off = c.resolve("SetValue", "the tensor", t, (index + 1) * size, 1) + static_cast<uint32_t>(index * size);
    c.issue(PS, "SetValue");
    c.check_write(PS, off, size, "SetValue");
    c.stamp_write(PS, off, size);
    c.set_taint(off, size, false);
    memcpy(c.ub + off, &raw, size);
}

// Bit 63 marks a UB address so that a stray number in an address list is noticed.
uint64_t ub_phys(const Loc& t) {
    return (1ull << 63) | static_cast<uint64_t>(t.buf) << 32 | t.off;
}

uint32_t ub_size() {
    return chip().ub_total;
}

}  // namespace tw
