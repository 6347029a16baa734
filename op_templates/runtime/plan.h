// What a fused op does for given input shapes: output shapes and the launch. Free of CANN; may be used by many threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "definition.h"

namespace taf {

using Dims = std::vector<int64_t>;

constexpr int64_t kUnknownDim = -1;

struct Launch {
    std::vector<Dims> outputs;
    bool empty = false;  // no output has an element: there is nothing to launch
    uint32_t block_dim = 0;
    uint64_t tiling_key = 0;
    uint64_t workspace_bytes = 0;
    std::vector<int64_t> tiling;  // the tiling data, in the kernel's order
};

class Plan {
public:
    explicit Plan(Definition definition) : definition_(std::move(definition)) {}

    const Definition& Of() const { return definition_; }

    // Throws Error where the shapes are not those of the op, or the launch is not one the chip can do.
    std::shared_ptr<const Launch> For(const std::vector<Dims>& inputs);

    // Output shapes where dims of inputs may be kUnknownDim; an input whose rank is not known is nullopt, and makes all
    // outputs so.
    std::optional<std::vector<Dims>> Infer(const std::vector<std::optional<Dims>>& inputs) const;

private:
    static constexpr size_t kMaxCached = 4096;

    Launch Made(const std::vector<Dims>& inputs) const;
    std::vector<int64_t> SymbolValues(const std::vector<Dims>& inputs) const;

    const Definition definition_;
    std::mutex lock_;
    std::map<std::vector<Dims>, std::shared_ptr<const Launch>> cached_;
};

}  // namespace taf
