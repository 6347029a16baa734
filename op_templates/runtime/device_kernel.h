// The device binary of a fused op: loaded once per device of the process, launched on a stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "acl/acl_rt.h"

namespace taf {

class DeviceKernel {
public:
    // `path`: absolute. `entry`: name of the kernel function. `meets`: its blocks wait for each other.
    DeviceKernel(std::string path, std::string entry, bool meets)
        : path_(std::move(path)), entry_(std::move(entry)), meets_(meets) {}

    const std::string& Path() const { return path_; }
    bool Meets() const { return meets_; }

    // Where the blocks of a kernel that meets wait for each other, on the current device: its first argument.
    uint64_t MeetingPlace();

    // The runtime copies `args` before it returns. All of it throws Error where the runtime refuses.
    void LaunchWithHostArgs(uint32_t blocks, void* args, size_t bytes, aclrtStream stream);

    // `args` lies on the device and stays.
    void LaunchWithDeviceArgs(uint32_t blocks, const void* args, size_t bytes, aclrtStream stream);

private:
    struct Loaded {
        aclrtBinHandle binary = nullptr;
        aclrtFuncHandle function = nullptr;
        uint64_t meeting_place = 0;
    };

    Loaded OnThisDevice();

    const std::string path_;
    const std::string entry_;
    const bool meets_;
    std::mutex lock_;
    std::map<int32_t, Loaded> loaded_;  // by device; stays until the process ends, as graphs do
};

}  // namespace taf
