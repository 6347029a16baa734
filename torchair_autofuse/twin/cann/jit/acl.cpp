// libascendcl of the twin: a "device binary" is a kernel built for the twin, so that a launch runs it and checks it.
//
// The kernel is what op_templates/jit/kernel.asc.j2 makes around kernel.cpp; its entry for the twin is called
// twin_enter_<entry> and unpacks the arguments (tests/twin/fake_bisheng.py).
#include "acl/acl_rt.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "eager_call.h"

namespace {

// The records of twin/include/twin/abi.h and twin/runtime/launch.cpp.
struct KernelInfo {
    uint32_t abi, arch, params;
    void (*call)(void** params);
    const char* name;
    const uint32_t* marks;
};
constexpr uint32_t kMarkSyncAll = 1;
struct LaunchArg {
    uint64_t address, bytes;
    int32_t kind, reserved;
    uint64_t read, written, unwritten;
};
struct LaunchResult {
    int32_t status, nframes;
    int64_t block;
    char rule[32];
    char message[1024];
    uint64_t frames[32];
    uint64_t counters[20];
};
using LaunchFunction = int (*)(const KernelInfo*, LaunchArg*, uint32_t, const void*, uint64_t, uint64_t, int64_t,
                               uint64_t, int64_t, uint32_t, LaunchResult*);

struct Binary {
    void* library = nullptr;
    const KernelInfo* info = nullptr;
    LaunchFunction launch = nullptr;
    int32_t device = 0;
};

struct Memory {
    size_t bytes;
    twin_cann::Use use;
};

constexpr aclError kFailed = 107000;
constexpr int64_t kVectorCores = 48;

std::mutex g_lock;
std::map<uint64_t, Memory> g_memory;
std::string g_error;
int64_t g_loads = 0, g_launches = 0;
thread_local int32_t t_device = 0;
int g_meeting_places[8];  // one address per device

aclError Fail(const std::string& why) {
    const std::lock_guard<std::mutex> hold(g_lock);
    g_error = why;
    return kFailed;
}

aclError Run(const Binary& binary, uint32_t blocks, aclrtLaunchKernelCfg* config, const void* args, size_t bytes) {
    const bool meets = (*binary.info->marks & kMarkSyncAll) != 0;
    if (binary.device != t_device) {
        return Fail("a kernel is launched on device " + std::to_string(t_device) + ", it was loaded on " +
                    std::to_string(binary.device));
    }
    bool all_at_once = false;
    for (size_t i = 0; config != nullptr && i < config->numAttrs; ++i) {
        const aclrtLaunchKernelAttr& attribute = config->attrs[i];
        all_at_once |= attribute.id == ACL_RT_LAUNCH_KERNEL_ATTR_SCHEM_MODE && attribute.value.schemMode == 1;
    }
    if (meets != all_at_once) {
        return Fail(meets ? "a kernel with SyncAll needs schedule mode 1"
                          : "schedule mode 1 is for kernels with SyncAll");
    }
    std::vector<uint64_t> words(bytes / 8);
    std::memcpy(words.data(), args, words.size() * 8);
    const size_t first = meets ? 1 : 0;
    const size_t tensors = binary.info->params - 2;  // beside workspace and tiling
    if (bytes % 8 != 0 || words.size() < first + tensors + 2) {
        return Fail("the arguments have " + std::to_string(bytes) + " bytes");
    }
    if (meets && words[0] != reinterpret_cast<uint64_t>(&g_meeting_places[t_device])) {
        return Fail("the first argument is not the meeting place of this device");
    }
    std::vector<LaunchArg> records;
    {
        const std::lock_guard<std::mutex> hold(g_lock);
        for (size_t i = 0; i < tensors + 1; ++i) {
            const uint64_t address = words[first + i];
            const auto found = g_memory.find(address);
            const bool workspace = i == tensors;
            if (workspace && address == 0) {
                continue;
            }
            if (address != 0 &&
                (found == g_memory.end() || (found->second.use == twin_cann::Use::kWorkspace) != workspace)) {
                g_error = "argument " + std::to_string(i) + " is no memory for it";
                return kFailed;
            }
            const Memory memory = address == 0 ? Memory{0, twin_cann::Use::kInput} : found->second;
            records.push_back({address, memory.bytes, static_cast<int32_t>(memory.use), 0, 0, 0, 0});
        }
        ++g_launches;
    }
    const uint64_t key = words[first + tensors + 1];
    const size_t tiling = first + tensors + 2;
    LaunchResult result;
    const int status = binary.launch(binary.info, records.data(), static_cast<uint32_t>(records.size()),
                                     words.data() + tiling, (words.size() - tiling) * 8, key, blocks, 7, kVectorCores,
                                     std::thread::hardware_concurrency(), &result);
    return status == 0 ? ACL_SUCCESS : Fail(std::string(result.rule) + ": " + result.message);
}

}  // namespace

namespace twin_cann {

void RecordMemory(const void* address, size_t bytes, Use use) {
    const std::lock_guard<std::mutex> hold(g_lock);
    g_memory[reinterpret_cast<uint64_t>(address)] = {bytes, use};
}

void ForgetMemory(const void* address) {
    const std::lock_guard<std::mutex> hold(g_lock);
    g_memory.erase(reinterpret_cast<uint64_t>(address));
}

}  // namespace twin_cann

extern "C" {

// As on a device that nobody has set up yet, until a test names one.
const char* aclrtGetSocName() {
    return std::getenv("TWIN_ACL_SOC");
}

aclError aclrtGetDevice(int32_t* deviceId) {
    *deviceId = t_device;
    return ACL_SUCCESS;
}

aclError aclrtGetHardwareSyncAddr(void** addr) {
    *addr = &g_meeting_places[t_device];
    return ACL_SUCCESS;
}

aclError aclrtBinaryLoadFromFile(const char* binPath, aclrtBinaryLoadOptions* options, aclrtBinHandle* binHandle) {
    if (binPath[0] != '/' || options != nullptr) {
        return Fail("a binary is loaded by its absolute path, without options");
    }
    auto made = std::make_unique<Binary>();
    made->library = dlopen(binPath, RTLD_NOW | RTLD_LOCAL);
    if (made->library == nullptr) {
        return Fail(dlerror());
    }
    const auto info = reinterpret_cast<const KernelInfo* (*)()>(dlsym(made->library, "twin_kernel_info"));
    made->launch = reinterpret_cast<LaunchFunction>(dlsym(made->library, "twin_launch"));
    if (info == nullptr || made->launch == nullptr) {
        return Fail(std::string(binPath) + " is no kernel for the twin");
    }
    made->info = info();
    made->device = t_device;
    {
        const std::lock_guard<std::mutex> hold(g_lock);
        ++g_loads;
    }
    *binHandle = made.release();
    return ACL_SUCCESS;
}

aclError aclrtBinaryGetFunction(const aclrtBinHandle binHandle, const char* kernelName, aclrtFuncHandle* funcHandle) {
    const Binary* const binary = static_cast<const Binary*>(binHandle);
    const std::string entry = std::string("twin_enter_") + kernelName;
    if (entry != binary->info->name) {
        return Fail(std::string("the binary has no kernel ") + kernelName);
    }
    *funcHandle = binHandle;
    return ACL_SUCCESS;
}

aclError aclrtLaunchKernelWithHostArgs(aclrtFuncHandle funcHandle, uint32_t numBlocks, aclrtStream,
                                       aclrtLaunchKernelCfg* cfg, void* hostArgs, size_t argsSize,
                                       aclrtPlaceHolderInfo* placeHolderArray, size_t placeHolderNum) {
    if (placeHolderArray != nullptr || placeHolderNum != 0) {
        return Fail("placeholders are not used");
    }
    return Run(*static_cast<const Binary*>(funcHandle), numBlocks, cfg, hostArgs, argsSize);
}

aclError aclrtLaunchKernelV2(aclrtFuncHandle funcHandle, uint32_t numBlocks, const void* argsData, size_t argsSize,
                             aclrtLaunchKernelCfg* cfg, aclrtStream) {
    return Run(*static_cast<const Binary*>(funcHandle), numBlocks, cfg, argsData, argsSize);
}

void twin_acl_set_device(int32_t device) {
    t_device = device;
}

// The last failure of any thread.
const char* twin_acl_error() {
    static thread_local std::string copy;
    const std::lock_guard<std::mutex> hold(g_lock);
    copy = g_error;
    return copy.c_str();
}

int64_t twin_acl_loads() {
    return g_loads;
}

int64_t twin_acl_launches() {
    return g_launches;
}
}
