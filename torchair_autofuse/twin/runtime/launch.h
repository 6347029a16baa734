// A launch as its blocks share it.
#pragma once

#include <condition_variable>
#include <mutex>
#include <set>
#include <tuple>
#include <vector>

#include "core.h"

namespace tw {

// Blocks that disturb each other. Only the first place counts, with all blocks involved there, so that the report does
// not depend on timing.
struct Conflict {
    bool found = false;
    int64_t arg = 0;
    uint64_t offset = 0;
    std::set<uint64_t> blocks;
    void add(int64_t at_arg, uint64_t at, std::initializer_list<uint64_t> who) {
        if (found && std::tie(at_arg, at) > std::tie(arg, offset)) {
            return;
        }
        if (!found || std::tie(at_arg, at) < std::tie(arg, offset)) {
            blocks.clear();
        }
        found = true;
        arg = at_arg;
        offset = at;
        blocks.insert(who);
    }
};

struct Launch {
    const KernelInfo* info;
    const Chip* chip;
    std::vector<GmArg> args;
    std::vector<Span> spans;
    const void* tiling;
    uint64_t tiling_bytes, key;
    int64_t blocks;
    uint64_t workspace;
    bool concurrent, serial;

    std::mutex lock;
    std::condition_variable wake;
    int64_t arrived = 0, ended = 0, turn = 0;
    uint64_t generation = 0;
    bool broken = false;  // a block failed: nobody may wait for it
    Conflict overlap, crossing;

    void conflict(Conflict& c, const GmArg& arg, uint64_t address, std::initializer_list<uint64_t> who) {
        std::lock_guard<std::mutex> hold(lock);
        c.add(&arg - args.data(), address > arg.base ? address - arg.base : 0, who);
    }
};

extern thread_local Launch* tls_launch;
extern thread_local int64_t tls_position;  // of this block in the order of the launch

inline Launch& launch() {
    return *tls_launch;
}

// f(block, byte mask) over the 32-byte blocks of a span that [address, address + bytes) touches.
template <typename F>
void over_gm(const Span& s, uint64_t address, uint64_t bytes, F&& f) {
    uint64_t off = address - s.base, end = off + bytes;
    for (uint64_t b = off / 32; b * 32 < end; ++b) {
        uint64_t start = b * 32;
        uint32_t from = off > start ? static_cast<uint32_t>(off - start) : 0;
        uint32_t to = end < start + 32 ? static_cast<uint32_t>(end - start) : 32;
        f(b, byte_mask(from, to));
    }
}

void build_spans(Launch& l);
std::string name_of(const GmArg& arg, uint64_t address);

}  // namespace tw
