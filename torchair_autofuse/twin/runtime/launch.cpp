// A launch: global memory and its shadow, blocks as threads, SyncAll, tiling, the result record.
#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <tuple>
#include <vector>

#include <dlfcn.h>

#include "core.h"

namespace tw {

namespace {

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

thread_local Launch* tls_launch = nullptr;
thread_local int64_t tls_position = 0;

Launch& launch() {
    return *tls_launch;
}

std::mutex g_pool_lock;
std::vector<std::unique_ptr<Core, void (*)(void*)>> g_pool;

struct CoreLease {
    std::unique_ptr<Core, void (*)(void*)> core{nullptr, free};
    CoreLease() {
        {
            std::lock_guard<std::mutex> hold(g_pool_lock);
            if (!g_pool.empty()) {
                core = std::move(g_pool.back());
                g_pool.pop_back();
            }
        }
        if (!core) {
            void* p = aligned_alloc(64, (sizeof(Core) + 63) / 64 * 64);
            memset(p, 0, sizeof(Core));
            core.reset(static_cast<Core*>(p));
        }
        tls_core = core.get();
    }
    ~CoreLease() {
        tls_core = nullptr;
        std::lock_guard<std::mutex> hold(g_pool_lock);
        g_pool.push_back(std::move(core));
    }
};

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

}  // namespace

const Chip& chip() {
    return *launch().chip;
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

// ---- SyncAll

namespace {

void meet(int64_t cores, const char* api) {
    Core& c = core();
    Launch& l = launch();
    c.order_all();
    ++c.n.syncs;
    if (l.blocks > 1 && cores > 1) {
        std::unique_lock<std::mutex> hold(l.lock);
        uint64_t mine = l.generation;
        ++l.arrived;
        if (l.arrived == cores) {
            l.arrived = 0;
            l.turn = 0;
            ++l.generation;
        } else {
            ++l.turn;
        }
        l.wake.notify_all();
        l.wake.wait(hold, [&] {
            return (l.generation != mine && (!l.serial || l.turn == tls_position)) || l.broken ||
                   (l.generation == mine && l.ended + l.arrived == l.blocks && l.ended > 0);
        });
        if (l.generation == mine) {
            if (l.broken) {
                throw Aborted();
            }
            hold.unlock();
            fail("sync-all", "%s: %lld of %lld blocks ended without it; the others would hang", api,
                 static_cast<long long>(l.ended), static_cast<long long>(l.blocks));
        }
    }
    ++c.phase;
}

}  // namespace

void sync_all_hard() {
    Core& c = core();
    if (c.ktype == 0) {
        fail("sync-all", "SyncAll without workspace needs the kernel type KERNEL_TYPE_MIX_AIV_1_0");
    }
    meet(launch().blocks, "SyncAll");
}

void sync_all_soft(const void* gm, uint64_t gm_bytes, const Loc& ub, int32_t used_cores) {
    Core& c = core();
    Launch& l = launch();
    int64_t cores = used_cores == 0 ? l.blocks : used_cores;
    uint64_t need = static_cast<uint64_t>(l.blocks) * 32;
    if (cores < 1 || cores > l.blocks) {
        fail("sync-all", "SyncAll: %d cores of %lld blocks", used_cores, static_cast<long long>(l.blocks));
    }
    uint64_t at = reinterpret_cast<uint64_t>(gm);
    gm_find("SyncAll", at, need, true);
    bool zero = true;  // what the host left there, as long as no block has met another
    for (uint64_t i = 0; i < need && c.phase == 0; ++i) {
        zero = zero && static_cast<const uint8_t*>(gm)[i] == 0;
    }
    if ((gm_bytes != 0 && gm_bytes < need) || !zero) {
        fail("sync-all", "SyncAll: gmWorkspace must be zeroed and hold %llu bytes (32 per block)",
             static_cast<unsigned long long>(need));
    }
    c.resolve("SyncAll", "ubWorkspace", ub, need, 32);
    meet(cores, "SyncAll");
}

// ---- kernel environment

int64_t block_idx() {
    return core().block;
}
int64_t block_num() {
    return launch().blocks;
}
uint64_t tiling_key() {
    return launch().key;
}
bool tiling_key_is(uint64_t key) {
    Core& c = core();
    c.key_asked = true;
    bool match = key == launch().key;
    c.key_matched = c.key_matched || match;
    return match;
}
void tiling_copy(void* to, const void* from, size_t bytes, size_t offset, size_t whole) {
    Launch& l = launch();
    if (from != l.tiling) {
        fail("tiling-size", "GET_TILING_DATA: the second argument is not the kernel's tiling parameter");
    }
    if (whole != l.tiling_bytes) {
        fail("tiling-size", "the tiling struct has %llu bytes, the launch passes %llu",
             static_cast<unsigned long long>(whole), static_cast<unsigned long long>(l.tiling_bytes));
    }
    if (whole % 8 != 0) {
        fail("tiling-size", "the tiling struct has %llu bytes, not a multiple of 8",
             static_cast<unsigned long long>(whole));
    }
    memcpy(to, static_cast<const char*>(from) + offset, bytes);
}
void kernel_type(int type) {
    core().ktype = type;
}
void* user_workspace(void* workspace) {
    return static_cast<char*>(workspace) + chip().reserved_workspace;
}

// ---- entry point for the launcher

struct LaunchArg {
    uint64_t address, bytes;
    int32_t kind, reserved;
    uint64_t read, written, unwritten;  // results
};

struct LaunchResult {
    int32_t status;  // 0 ok, 1 a rule was broken, 2 the launch itself is wrong
    int32_t nframes;
    int64_t block;
    char rule[32];
    char message[1024];
    uint64_t frames[32];  // return addresses inside the kernel's library, as offsets
    uint64_t counters[20];
};

namespace {

struct BlockResult {
    bool failed = false;
    Violation violation;
    Counters counters{};
};

void run_block(Launch& l, int64_t block, int64_t position, BlockResult& out, void** params) {
    CoreLease lease;
    tls_launch = &l;
    tls_position = position;
    Core& c = core();
    c.begin(block);
    if (l.serial && l.concurrent) {
        std::unique_lock<std::mutex> hold(l.lock);
        l.wake.wait(hold, [&] { return l.turn == position; });
    }
    try {
        l.info->call(params);
        c.finish();
    } catch (const Violation& v) {
        out.failed = true;
        out.violation = v;
    } catch (const Aborted&) {
    } catch (const std::exception& e) {
        out.failed = true;
        out.violation.rule = "exception";
        out.violation.message = e.what();
    }
    out.counters = c.n;
    {
        std::lock_guard<std::mutex> hold(l.lock);
        ++l.ended;
        ++l.turn;
        l.broken = l.broken || out.failed;
    }
    l.wake.notify_all();
    tls_launch = nullptr;
}

uint64_t mix(uint64_t& state) {
    uint64_t z = (state += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

void put(LaunchResult& r, const char* rule, const std::string& message) {
    r.status = 1;
    snprintf(r.rule, sizeof(r.rule), "%s", rule);
    snprintf(r.message, sizeof(r.message), "%s", message.c_str());
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int twin_launch(const KernelInfo* info, LaunchArg* args,
                                                                  uint32_t nargs, const void* tiling,
                                                                  uint64_t tiling_bytes, uint64_t key, int64_t blocks,
                                                                  uint64_t seed, int64_t max_blocks, uint32_t threads,
                                                                  LaunchResult* result) {
    memset(result, 0, sizeof(*result));
    result->block = -1;
    if (info->abi != kAbi) {
        put(*result, "abi", "the kernel was built for another version of the twin");
        return result->status = 2;
    }
    if (blocks < 1 || blocks > max_blocks || blocks > 0x7ff0) {
        put(*result, "block-count", "block_dim is " + std::to_string(blocks) + ", allowed are 1.." +
                                        std::to_string(max_blocks));
        return result->status;
    }
    Launch l;
    l.info = info;
    l.chip = &chip_of(info->arch);
    l.tiling = tiling;
    l.tiling_bytes = tiling_bytes;
    l.key = key;
    l.blocks = blocks;
    std::vector<void*> params;
    uint64_t workspace = 0;
    for (uint32_t i = 0; i < nargs; ++i) {
        l.args.push_back({args[i].address, args[i].bytes, args[i].kind, 0, 0, 0});
        if (args[i].kind == 2) {
            workspace = args[i].address;
        } else {
            params.push_back(reinterpret_cast<void*>(args[i].address));
        }
    }
    // Only GetUserWorkspace leads to the memory that was passed.
    params.push_back(reinterpret_cast<void*>(workspace - (workspace == 0 ? 0 : l.chip->reserved_workspace)));
    params.push_back(const_cast<void*>(tiling));
    if (params.size() != info->params) {
        put(*result, "params", "the kernel takes " + std::to_string(info->params) + " parameters, the launch has " +
                                   std::to_string(params.size()) + " (inputs, outputs, workspace, tiling)");
        return result->status = 2;
    }
    build_spans(l);

    std::vector<int64_t> order(static_cast<size_t>(blocks));
    for (int64_t i = 0; i < blocks; ++i) {
        order[static_cast<size_t>(i)] = i;
    }
    uint64_t state = seed;
    for (size_t i = order.size(); i > 1; --i) {
        std::swap(order[i - 1], order[mix(state) % i]);
    }

    std::vector<BlockResult> results(static_cast<size_t>(blocks));
    bool meets = (*info->marks & kMarkSyncAll) != 0;
    l.serial = (*info->marks & kMarkAtomic) != 0;
    size_t n = meets ? order.size() : std::min(order.size(), static_cast<size_t>(std::max(1u, threads)));
    if (l.serial && !meets) {
        n = 1;
    }
    l.concurrent = n > 1;
    size_t next = 0;
    std::mutex take;
    auto work = [&](size_t first) {
        if (meets) {
            run_block(l, order[first], static_cast<int64_t>(first), results[static_cast<size_t>(order[first])],
                      params.data());
            return;
        }
        for (;;) {
            size_t i;
            {
                std::lock_guard<std::mutex> hold(take);
                i = next++;
            }
            if (i >= order.size()) {
                return;
            }
            run_block(l, order[i], static_cast<int64_t>(i), results[static_cast<size_t>(order[i])], params.data());
        }
    };
    if (n == 1) {
        work(0);
    } else {
        std::vector<std::thread> team;
        for (size_t t = 0; t < n; ++t) {
            team.emplace_back(work, t);
        }
        for (std::thread& t : team) {
            t.join();
        }
    }

    for (uint32_t i = 0; i < nargs; ++i) {
        const GmArg& a = l.args[i];
        args[i].read = a.read;
        args[i].written = a.written;
        args[i].unwritten = 0;
        if (a.kind == 1 && a.bytes > 0) {
            const Span& s = l.spans[static_cast<size_t>(a.span)];
            over_gm(s, a.base, a.bytes, [&](uint64_t b, uint32_t m) {
                args[i].unwritten += static_cast<uint64_t>(__builtin_popcount(~s.shadow[b].init & m));
            });
        }
    }
    for (Span& s : l.spans) {
        free(s.shadow);
    }
    Counters sum{};
    for (const BlockResult& r : results) {
        const uint64_t* from = reinterpret_cast<const uint64_t*>(&r.counters);
        uint64_t* to = reinterpret_cast<uint64_t*>(&sum);
        for (size_t i = 0; i < sizeof(Counters) / 8; ++i) {
            to[i] += from[i];
        }
    }
    sum.ub_peak = 0;
    for (const BlockResult& r : results) {
        sum.ub_peak = std::max(sum.ub_peak, r.counters.ub_peak);
    }
    static_assert(sizeof(Counters) / 8 <= 20);
    memcpy(result->counters, &sum, sizeof(sum));

    // Conflicts between blocks come first: they can make a block fail in one order and not in another.
    tls_launch = &l;
    for (const Conflict* found : {&l.overlap, &l.crossing}) {
        if (!found->found) {
            continue;
        }
        const GmArg& arg = l.args[static_cast<size_t>(found->arg)];
        std::string place = name_of(arg, arg.base + found->offset), who;
        for (uint64_t b : found->blocks) {
            who += (who.empty() ? "" : ", ") + std::to_string(b);
        }
        if (found == &l.overlap) {
            put(*result, "block-overlap", "blocks " + who + " write the same 32 bytes of GM (" + place + ")");
        } else {
            put(*result, "cross-block-read", "a block reads GM that another one writes, without SyncAll in between (" + place + ")");
        }
        tls_launch = nullptr;
        return result->status;
    }
    tls_launch = nullptr;
    for (int64_t b = 0; b < blocks; ++b) {
        const BlockResult& r = results[static_cast<size_t>(b)];
        if (!r.failed) {
            continue;
        }
        put(*result, r.violation.rule.c_str(), r.violation.message);
        result->block = b;
        Dl_info kernel{};
        dladdr(reinterpret_cast<const void*>(info->call), &kernel);
        for (int i = 0; i < r.violation.nframes; ++i) {
            Dl_info where{};
            if (dladdr(r.violation.frames[i], &where) != 0 && where.dli_fbase == kernel.dli_fbase) {
                result->frames[result->nframes++] =
                    reinterpret_cast<uint64_t>(r.violation.frames[i]) - reinterpret_cast<uint64_t>(where.dli_fbase);
            }
        }
        break;
    }
    return result->status;
}

}  // namespace tw
