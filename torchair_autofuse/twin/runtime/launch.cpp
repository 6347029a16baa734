// Entry point for the launcher: blocks as threads, the result record.
#include <algorithm>
#include <memory>
#include <thread>

#include <dlfcn.h>

#include "launch.h"

namespace tw {

namespace {

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

}  // namespace

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
