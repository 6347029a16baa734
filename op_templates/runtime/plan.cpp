#include "plan.h"

#include <algorithm>
#include <string>
#include <utility>

#include "arithmetic.h"
#include "error.h"

namespace taf {

namespace {

std::string Text(const Dims& dims) {
    std::string text;
    for (const int64_t dim : dims) {
        text += (text.empty() ? "" : ", ") + std::to_string(dim);
    }
    return "[" + text + "]";
}

bool IsKnown(const SizeExpression& size, const std::vector<int64_t>& symbols) {
    const std::vector<size_t>& read = size.Variables();
    return std::all_of(read.begin(), read.end(), [&](size_t slot) { return symbols[slot] != kUnknownDim; });
}

}  // namespace

std::shared_ptr<const Launch> Plan::For(const std::vector<Dims>& inputs) {
    {
        const std::lock_guard<std::mutex> hold(lock_);
        const auto found = cached_.find(inputs);
        if (found != cached_.end()) {
            return found->second;
        }
    }
    auto made = std::make_shared<const Launch>(Made(inputs));
    const std::lock_guard<std::mutex> hold(lock_);
    if (cached_.size() >= kMaxCached) {
        cached_.clear();
    }
    return cached_.emplace(inputs, std::move(made)).first->second;
}

std::optional<std::vector<Dims>> Plan::Infer(const std::vector<std::optional<Dims>>& inputs) const {
    std::vector<Dims> known;
    for (const std::optional<Dims>& dims : inputs) {
        if (!dims) {
            return std::nullopt;
        }
        known.push_back(*dims);
    }
    const std::vector<int64_t> symbols = SymbolValues(known);
    std::vector<Dims> shapes;
    for (const Param& output : definition_.outputs) {
        Dims& shape = shapes.emplace_back();
        for (const SizeExpression& size : output.dims) {
            shape.push_back(IsKnown(size, symbols) ? size.Evaluate(symbols) : kUnknownDim);
        }
    }
    return shapes;
}

std::vector<int64_t> Plan::SymbolValues(const std::vector<Dims>& inputs) const {
    const std::string& op = definition_.op_type;
    if (inputs.size() != definition_.inputs.size()) {
        throw Error(op + ": " + std::to_string(inputs.size()) + " inputs given, it takes " +
                    std::to_string(definition_.inputs.size()));
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
        const Param& param = definition_.inputs[i];
        if (inputs[i].size() != param.dims.size()) {
            throw Error(op + ": input " + param.name + " is " + Text(inputs[i]) + ", expected " +
                        std::to_string(param.dims.size()) + " dims");
        }
    }
    std::vector<int64_t> values;
    for (const Symbol& s : definition_.symbols) {
        const int64_t dim = inputs[s.input][s.dim];
        values.push_back(dim < 0 ? kUnknownDim : dim / s.divisor);
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
        const Param& param = definition_.inputs[i];
        for (size_t k = 0; k < param.dims.size(); ++k) {
            if (inputs[i][k] < 0 || !IsKnown(param.dims[k], values)) {
                continue;
            }
            const int64_t expected = param.dims[k].Evaluate(values);
            if (inputs[i][k] != expected) {
                throw Error(op + ": input " + param.name + " is " + Text(inputs[i]) + ", expected " +
                            std::to_string(expected) + " in dim " + std::to_string(k));
            }
        }
    }
    return values;
}

Launch Plan::Made(const std::vector<Dims>& inputs) const {
    const Schedule& schedule = definition_.schedule;
    for (const Dims& dims : inputs) {
        if (std::any_of(dims.begin(), dims.end(), [](int64_t dim) { return dim < 0; })) {
            throw Error(definition_.op_type + ": an input is " + Text(dims) + " when it is run");
        }
    }
    std::vector<int64_t> values = SymbolValues(inputs);
    Launch made;
    made.empty = true;
    for (const Param& output : definition_.outputs) {
        Dims& shape = made.outputs.emplace_back();
        int64_t bytes = static_cast<int64_t>(output.itemsize);
        for (const SizeExpression& size : output.dims) {
            shape.push_back(size.Evaluate(values));
            if (shape.back() < 0) {
                throw Error(definition_.op_type + ": output " + output.name + " would be " + Text(shape));
            }
        }
        for (const int64_t dim : shape) {
            bytes = dim == 0 ? 0 : bytes == 0 ? 0 : Mul(bytes, dim);
        }
        made.empty = made.empty && bytes == 0;
    }
    if (made.empty) {
        return made;
    }
    values.push_back(schedule.vector_cores);
    values.push_back(schedule.ub_bytes);
    for (const TilingExpression& step : schedule.steps) {
        values.push_back(step.Evaluate(values));
    }
    const int64_t blocks = schedule.block_dim.Evaluate(values);
    const int64_t key = schedule.tiling_key.Evaluate(values);
    const int64_t workspace = schedule.workspace_bytes.Evaluate(values);
    const int64_t ub = schedule.ub_used.Evaluate(values);
    if (blocks < 1 || blocks > schedule.vector_cores || key < 0 || workspace < 0 || ub < 0 ||
        ub > schedule.ub_limit_bytes) {
        throw Error(definition_.op_type + ": the launch does not fit the chip: " + std::to_string(blocks) +
                    " blocks, " + std::to_string(ub) + " bytes of UB, " + std::to_string(workspace) +
                    " bytes of workspace");
    }
    made.block_dim = static_cast<uint32_t>(blocks);
    made.tiling_key = static_cast<uint64_t>(key);
    made.workspace_bytes = static_cast<uint64_t>(workspace);
    for (const size_t place : schedule.fields) {
        made.tiling.push_back(values[place]);
    }
    return made;
}

}  // namespace taf
