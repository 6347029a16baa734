#include "device_kernel.h"

#include "error.h"

namespace taf {

namespace {

void Check(aclError status, const std::string& what) {
    if (status != ACL_SUCCESS) {
        throw Error(what + " failed with ACL error " + std::to_string(status));
    }
}

// What a launch asks for: all blocks at once when they wait for each other.
class Config {
public:
    explicit Config(bool meets) : meets_(meets) {
        attribute_.id = ACL_RT_LAUNCH_KERNEL_ATTR_SCHEM_MODE;
        attribute_.value.schemMode = 1;
        config_.attrs = &attribute_;
        config_.numAttrs = 1;
    }
    Config(const Config&) = delete;
    Config& operator=(const Config&) = delete;

    aclrtLaunchKernelCfg* Get() { return meets_ ? &config_ : nullptr; }

private:
    const bool meets_;
    aclrtLaunchKernelAttr attribute_{};
    aclrtLaunchKernelCfg config_{};
};

}  // namespace

DeviceKernel::Loaded DeviceKernel::OnThisDevice() {
    int32_t device = 0;
    Check(aclrtGetDevice(&device), "aclrtGetDevice");
    const std::lock_guard<std::mutex> hold(lock_);
    Loaded& found = loaded_[device];
    if (found.function == nullptr) {
        if (found.binary == nullptr) {
            Check(aclrtBinaryLoadFromFile(path_.c_str(), nullptr, &found.binary), "loading " + path_);
        }
        if (meets_) {
            void* place = nullptr;
            Check(aclrtGetHardwareSyncAddr(&place), "aclrtGetHardwareSyncAddr");
            found.meeting_place = reinterpret_cast<uint64_t>(place);
        }
        Check(aclrtBinaryGetFunction(found.binary, entry_.c_str(), &found.function),
              "finding " + entry_ + " in " + path_);
    }
    return found;
}

uint64_t DeviceKernel::MeetingPlace() {
    return OnThisDevice().meeting_place;
}

void DeviceKernel::LaunchWithHostArgs(uint32_t blocks, void* args, size_t bytes, aclrtStream stream) {
    Config config(meets_);
    const Loaded kernel = OnThisDevice();
    Check(aclrtLaunchKernelWithHostArgs(kernel.function, blocks, stream, config.Get(), args, bytes, nullptr, 0),
          "launching " + entry_);
}

void DeviceKernel::LaunchWithDeviceArgs(uint32_t blocks, const void* args, size_t bytes, aclrtStream stream) {
    Config config(meets_);
    const Loaded kernel = OnThisDevice();
    Check(aclrtLaunchKernelV2(kernel.function, blocks, args, bytes, config.Get(), stream), "launching " + entry_);
}

}  // namespace taf
