// The C interface. Every function may be called by several threads at once.
#include <cstddef>
#include <exception>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "acl/acl_rt.h"
#include "error.h"
#include "fused_op.h"

#define TAF_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using taf::Definition;
using taf::Error;
using taf::Registered;

thread_local std::string g_last_error;

struct Registry {
    std::mutex lock;
    std::map<std::string, std::shared_ptr<Registered>> ops;
};

// Never destroyed: GE's factories may ask for ops until the process ends.
Registry& TheRegistry() {
    static Registry* const registry = new Registry();
    return *registry;
}

// A launch with more blocks than the device has cores would wait for ever.
void CheckDevice(const std::string& op_type, const std::string& soc) {
    const char* const found = aclrtGetSocName();  // null before the runtime is initialised
    if (found != nullptr && soc != found) {
        throw Error(op_type + " was made for " + soc + ", the device is " + found);
    }
}

void Register(std::string_view bytes, const std::string& binary, const std::string& soc, bool meets,
              bool refreshes) {
    Definition definition = Definition::Read(bytes, soc);
    CheckDevice(definition.op_type, soc);
    if (binary.empty() || binary[0] != '/' || !std::ifstream(binary).good()) {
        throw Error(definition.op_type + ": there is no device binary " + binary);
    }
    Registry& registry = TheRegistry();
    const std::lock_guard<std::mutex> hold(registry.lock);
    const auto found = registry.ops.find(definition.op_type);
    if (found != registry.ops.end()) {
        const Registered& old = *found->second;
        if (old.plan.Of().identity != definition.identity || old.kernel.Path() != binary ||
            old.kernel.Meets() != meets) {
            throw Error(definition.op_type + " is registered with another definition or kernel (" + old.kernel.Path() +
                        "); ops cannot be changed while the process lives");
        }
        if (old.refreshes && !refreshes) {
            throw Error(definition.op_type + " is registered for static graphs in this process, this one is dynamic");
        }
        return;
    }
    const std::string op_type = definition.op_type;
    const auto made = std::make_shared<Registered>(std::move(definition), binary, meets, refreshes);
    taf::RegisterWithGe(made);
    registry.ops.emplace(op_type, made);
}

}  // namespace

// Registers the op of a definition (a FusedOpDef, `bytes` long) with GE; once more is no error. `binary`: absolute path
// of its device binary; `soc`: the schedule that is used; `meets`: whether the kernel takes a meeting place;
// `refreshes`: whether it is for static graphs only, whose addresses GE refreshes where it can. Returns 0, or another
// number with taf_last_error set.
TAF_EXPORT int taf_register(const void* definition, size_t bytes, const char* binary, const char* soc, int meets,
                            int refreshes) {
    try {
        if (definition == nullptr || binary == nullptr || soc == nullptr) {
            throw Error("taf_register was given a null pointer");
        }
        Register({static_cast<const char*>(definition), bytes}, binary, soc, meets != 0,
                 TAF_ARGS_UPDATER && refreshes != 0);
        return 0;
    } catch (const std::exception& error) {
        g_last_error = error.what();
        return 1;
    }
}

// 1 when an op of this type was registered here, else 0.
TAF_EXPORT int taf_registered(const char* op_type) {
    Registry& registry = TheRegistry();
    const std::lock_guard<std::mutex> hold(registry.lock);
    return op_type != nullptr && registry.ops.count(op_type) != 0 ? 1 : 0;
}

// Why the last taf_register of this thread failed; "" before that. Valid until the thread's next failure.
TAF_EXPORT const char* taf_last_error() {
    return g_last_error.c_str();
}

// 1 when the library can refresh the addresses of loaded static graphs, else 0.
TAF_EXPORT int taf_refreshes_addresses() {
    return TAF_ARGS_UPDATER;
}
