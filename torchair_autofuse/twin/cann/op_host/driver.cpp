// The C interface through which torchair_autofuse/twin/op_host.py runs compiled host code over many shapes in one call.
//
// A call returns how many cases it did; fewer than asked for means that the next one broke a rule, which `error` says.
// Shapes arrive as a stream of int64: rank, dims, rank, dims, ...
#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "twin/op_list.h"
#include "twin/tiling_call.h"

namespace {

using twin_cann::Broken;
using twin_cann::Ops;
using twin_cann::TilingCall;

constexpr int64_t kStatusOk = 0, kStatusFailed = 1;
constexpr size_t kShapeWords = gert::Shape::kMaxDimNum + 1;  // rank and dims

void Copy(const std::string& text, char* buffer, const int64_t bytes) {
    const size_t count = std::min(text.size(), static_cast<size_t>(bytes) - 1);
    std::memcpy(buffer, text.data(), count);
    buffer[count] = 0;
}

// The op, made and checked once.
const ops::OpDef& Op(const int64_t index) {
    static std::mutex mutex;
    static std::map<int64_t, ops::OpDef> made;
    const std::lock_guard<std::mutex> lock(mutex);
    if (const auto found = made.find(index); found != made.end()) {
        return found->second;
    }
    const twin_cann::OpEntry& entry = Ops().at(static_cast<size_t>(index));
    for (const twin_cann::OpEntry& other : Ops()) {
        if (&other != &entry && std::strcmp(other.type, entry.type) == 0) {
            Broken("OP_ADD(" + std::string(entry.type) + ") is there twice");
        }
    }
    ops::OpDef op = entry.make(entry.type);
    op.Check();
    return made.emplace(index, std::move(op)).first->second;
}

gert::Shape ReadShape(const int64_t*& stream) {
    gert::Shape shape;
    shape.SetDimNum(static_cast<size_t>(*stream++));
    for (size_t i = 0; i < shape.GetDimNum(); ++i) {
        shape.SetDim(i, *stream++);
    }
    return shape;
}

// Runs `one(op, case)` for each case and turns a broken rule into text.
template <typename F>
int64_t ForEach(const int64_t index, const int64_t cases, char* error, const int64_t error_bytes, F one) {
    int64_t done = 0;
    try {
        const ops::OpDef& op = Op(index);
        for (; done < cases; ++done) {
            one(op, done);
        }
    } catch (const std::exception& broken) {
        Copy(broken.what(), error, error_bytes);
    }
    return done;
}

uint32_t Tile(const ops::OpDef& op, TilingCall& call, const unsigned char fill) {
    std::memset(call.tiling_data.GetData(), fill, call.tiling_data.GetCapacity());
    call.tiling_data.SetDataSize(0);
    call.workspaces.clear();
    call.key.reset();
    call.block_dim.reset();
    call.schedule_mode = 0;
    gert::TilingContext context(call);
    return op.Core().Tiling()(&context);
}

void CheckTiling(const TilingCall& call) {
    if (!call.key || !call.block_dim) {
        Broken(std::string("the tiling function did not set the ") + (call.key ? "block dim" : "tiling key"));
    }
    if (*call.block_dim < 1 || *call.block_dim > call.platform.vector_cores) {
        Broken("block dim " + std::to_string(*call.block_dim) + " on " + std::to_string(call.platform.vector_cores) +
               " cores");
    }
    if (call.tiling_data.GetDataSize() == 0) {
        Broken("the tiling function did not ask for its tiling data");
    }
    if (call.workspaces.empty()) {
        Broken("the tiling function did not ask for a workspace, in which Ascend C itself keeps data");
    }
    for (const size_t bytes : call.workspaces) {
        if (bytes == SIZE_MAX) {
            Broken("a workspace size was asked for and not set");
        }
    }
    if (call.workspaces[0] < static_cast<size_t>(call.platform.lib_workspace_bytes)) {
        Broken("a workspace of " + std::to_string(call.workspaces[0]) + " bytes does not hold the " +
               std::to_string(call.platform.lib_workspace_bytes) + " of the library");
    }
    if (call.schedule_mode > 1) {
        Broken("schedule mode " + std::to_string(call.schedule_mode) + "; there are 0 and 1");
    }
}

std::string Numbers(const char* name, const std::vector<int64_t>& values) {
    std::string text = std::string("\"") + name + "\": [";
    for (size_t i = 0; i < values.size(); ++i) {
        text += (i ? ", " : "") + std::to_string(values[i]);
    }
    return text + "]";
}

std::string Params(const std::deque<ops::OpParamDef>& params) {
    std::string text = "[";
    for (const ops::OpParamDef& p : params) {
        text += (text.size() > 1 ? ", " : "") + ("{\"name\": \"" + p.Name() + "\", ");
        text += "\"param_type\": " + std::to_string(p.Type()) + ", ";
        text += Numbers("data_types", {p.Types().begin(), p.Types().end()}) + ", ";
        text += Numbers("formats", {p.Formats().begin(), p.Formats().end()}) + ", ";
        text += Numbers("unknown_shape_formats", {p.UnknownFormats().begin(), p.UnknownFormats().end()}) + "}";
    }
    return text + "]";
}

std::string Describe(const ops::OpDef& op) {
    std::string text = "{\"op_type\": \"" + op.Type() + "\", \"inputs\": " + Params(op.Inputs());
    text += ", \"outputs\": " + Params(op.Outputs()) + ", \"configs\": {";
    bool first = true;
    for (const auto& [soc, config] : op.Core().Configs()) {
        text += (first ? "\"" : ", \"") + soc + "\": {";
        first = false;
        bool first_flag = true;
        for (const auto& [flag, value] : config.Flags()) {
            text += (first_flag ? "\"" : ", \"") + flag + "\": " + (value ? "true" : "false");
            first_flag = false;
        }
        text += "}";
    }
    return text + "}}";
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int64_t twin_host_count() {
    return static_cast<int64_t>(Ops().size());
}

const char* twin_host_type(const int64_t index) {
    return Ops().at(static_cast<size_t>(index)).type;
}

// JSON of what op `index` declares; the text lives until the next call.
const char* twin_host_describe(const int64_t index, char* error, const int64_t error_bytes) {
    thread_local std::string text;
    const auto describe = [](const ops::OpDef& op, int64_t) { text = Describe(op); };
    return ForEach(index, 1, error, error_bytes, describe) ? text.c_str() : nullptr;
}

// A case in `stream`: vector cores, UB bytes, library workspace bytes, then the input shapes.
// A row of `results`: status, tiling key, block dim, workspace bytes in all, schedule mode, bytes of tiling data.
int64_t twin_host_tiling(const int64_t index, const int64_t cases, const int64_t* stream, int64_t* results,
                         unsigned char* data, const int64_t data_stride, char* error, const int64_t error_bytes) {
    std::vector<unsigned char> first(twin_cann::kTilingCapacity), again(twin_cann::kTilingCapacity);
    return ForEach(index, cases, error, error_bytes, [&](const ops::OpDef& op, const int64_t done) {
        TilingCall call(first.data(), first.size()), check(again.data(), again.size());
        call.platform.vector_cores = *stream++;
        call.platform.ub_bytes = *stream++;
        call.platform.lib_workspace_bytes = *stream++;
        for (size_t i = 0; i < op.Inputs().size(); ++i) {
            gert::StorageShape& shape = call.inputs.emplace_back();
            shape.MutableOriginShape() = ReadShape(stream);
            shape.MutableStorageShape() = shape.GetOriginShape();
        }
        check.inputs = call.inputs;
        check.platform = call.platform;
        int64_t* row = results + 6 * done;
        row[0] = Tile(op, call, 0xA5) == ge::GRAPH_SUCCESS ? kStatusOk : kStatusFailed;
        if (row[0] != kStatusOk) {
            return;
        }
        CheckTiling(call);
        const size_t bytes = call.tiling_data.GetDataSize();
        // Once more over other old contents: what differs is a byte that was not set.
        if (Tile(op, check, 0x5A) != ge::GRAPH_SUCCESS || check.tiling_data.GetDataSize() != bytes ||
            std::memcmp(first.data(), again.data(), bytes) != 0) {
            Broken("tiling data that is not set, or depends on an earlier call");
        }
        if (bytes > static_cast<size_t>(data_stride)) {
            Broken("tiling data of " + std::to_string(bytes) + " bytes; the caller has room for " +
                   std::to_string(data_stride));
        }
        std::memcpy(data + data_stride * done, first.data(), bytes);
        row[1] = static_cast<int64_t>(*call.key);
        row[2] = *call.block_dim;
        row[3] = static_cast<int64_t>(call.workspaces[0]);
        row[4] = call.schedule_mode;
        row[5] = static_cast<int64_t>(bytes);
    });
}

// A case in `stream`: the input shapes. A row of `results`: status, then rank and 25 dims of each output.
int64_t twin_host_infer_shape(const int64_t index, const int64_t cases, const int64_t* stream, int64_t* results,
                              char* error, const int64_t error_bytes) {
    return ForEach(index, cases, error, error_bytes, [&](const ops::OpDef& op, const int64_t done) {
        std::vector<gert::Shape> inputs, outputs(op.Outputs().size());
        for (size_t i = 0; i < op.Inputs().size(); ++i) {
            inputs.push_back(ReadShape(stream));
        }
        for (gert::Shape& shape : outputs) {  // a dim that stays so was not set
            shape.SetDimNum(gert::Shape::kMaxDimNum);
            for (size_t i = 0; i < gert::Shape::kMaxDimNum; ++i) {
                shape.SetDim(i, gert::Shape::kInvalidDimValue);
            }
        }
        gert::InferShapeContext context(inputs, outputs);
        int64_t* row = results + (1 + kShapeWords * outputs.size()) * static_cast<size_t>(done);
        *row = op.InferShape()(&context) == ge::GRAPH_SUCCESS ? kStatusOk : kStatusFailed;
        for (size_t k = 0; k < outputs.size() && *row == kStatusOk; ++k) {
            int64_t* words = row + 1 + kShapeWords * k;
            *words = static_cast<int64_t>(outputs[k].GetDimNum());
            for (size_t i = 0; i < outputs[k].GetDimNum(); ++i) {
                const int64_t dim = outputs[k].GetDim(i);
                const bool no_rank = dim == ge::UNKNOWN_DIM_NUM && outputs[k].GetDimNum() == 1;
                if (dim < ge::UNKNOWN_DIM && !no_rank) {
                    Broken("output " + std::to_string(k) + ": dim " + std::to_string(i) +
                           (dim == gert::Shape::kInvalidDimValue ? " was not set" : " is " + std::to_string(dim)));
                }
                words[1 + i] = dim;
            }
        }
    });
}

// `types` of the inputs in, of the outputs out; `*status` as above.
int64_t twin_host_infer_data_type(const int64_t index, const int64_t* types, int64_t* status, int64_t* results,
                                  char* error, const int64_t error_bytes) {
    return ForEach(index, 1, error, error_bytes, [&](const ops::OpDef& op, int64_t) {
        std::vector<ge::DataType> inputs, outputs(op.Outputs().size(), ge::DT_UNDEFINED);
        for (size_t i = 0; i < op.Inputs().size(); ++i) {
            inputs.push_back(static_cast<ge::DataType>(types[i]));
        }
        gert::InferDataTypeContext context(inputs, outputs);
        *status = op.InferDataType()(&context) == ge::GRAPH_SUCCESS ? kStatusOk : kStatusFailed;
        for (size_t k = 0; k < outputs.size() && *status == kStatusOk; ++k) {
            if (outputs[k] == ge::DT_UNDEFINED) {
                Broken("the type of output " + std::to_string(k) + " was not set");
            }
            results[k] = outputs[k];
        }
    });
}

}  // extern "C"
#pragma GCC visibility pop
