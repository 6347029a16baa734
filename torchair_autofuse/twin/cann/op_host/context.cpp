// What the look-alikes of op registration and of TilingContext keep and check.
#include <cctype>
#include <set>

#include "register/op_def_registry.h"
#include "twin/op_list.h"
#include "twin/tiling_call.h"

using twin_cann::Broken;

namespace twin_cann {

std::vector<OpEntry>& Ops() {
    static std::vector<OpEntry> ops;
    return ops;
}

int AddOp(const char* type, ops::OpDef (*make)(const char* name)) {
    Ops().push_back({type, make});
    return 0;
}

}  // namespace twin_cann

namespace gert {

const StorageShape* TilingContext::GetInputShape(const size_t index) const {
    return index < call_.inputs.size() ? &call_.inputs[index] : nullptr;
}

fe::PlatFormInfos* TilingContext::GetPlatformInfo() const {
    return &call_.platform;
}

TilingData* TilingContext::GetRawTilingData() {
    return &call_.tiling_data;
}

size_t* TilingContext::GetWorkspaceSizes(const size_t count) {
    if (count > twin_cann::kMaxWorkspaces) {
        return nullptr;
    }
    call_.workspaces.assign(count, SIZE_MAX);
    return call_.workspaces.data();
}

ge::graphStatus TilingContext::SetTilingKey(const uint64_t key) {
    call_.key = key;
    return ge::GRAPH_SUCCESS;
}

ge::graphStatus TilingContext::SetBlockDim(const uint32_t block_dim) {
    call_.block_dim = block_dim;
    return ge::GRAPH_SUCCESS;
}

ge::graphStatus TilingContext::SetScheduleMode(const uint32_t mode) {
    call_.schedule_mode = mode;
    return ge::GRAPH_SUCCESS;
}

}  // namespace gert

namespace ops {
namespace {

// Each of an OpDef's lists is given once; CANN keeps the last one.
template <typename T>
void SetOnce(std::vector<T>& field, std::vector<T> values, const std::string& what) {
    if (!field.empty()) {
        Broken(what + " is given twice");
    }
    if (values.empty()) {
        Broken(what + " is empty");
    }
    field = std::move(values);
}

void CheckName(const std::string& name, const std::string& what, std::set<std::string>& seen) {
    bool good = !name.empty() && std::isalpha(static_cast<unsigned char>(name[0]));
    for (const char c : name) {
        good = good && (std::isalnum(static_cast<unsigned char>(c)) || c == '_');
    }
    if (!good) {
        Broken(what + " has the name '" + name + "', which is not an identifier");
    }
    if (!seen.insert(name).second) {
        Broken(what + " is called '" + name + "' like another parameter, which would mean an output written in place");
    }
}

void CheckParam(const OpParamDef& param, const std::string& what, const size_t columns) {
    if (param.Type() == IGNORE) {
        Broken(what + ": no ParamType");
    }
    const std::pair<const char*, size_t> lists[] = {{"DataType", param.Types().size()},
                                                    {"Format", param.Formats().size()},
                                                    {"UnknownShapeFormat", param.UnknownFormats().size()}};
    for (const auto& [name, size] : lists) {
        if (size != columns) {
            Broken(what + ": " + name + " has " + std::to_string(size) + " entries, the first parameter has " +
                   std::to_string(columns) + "; entry k of all lists is combination k");
        }
    }
}

}  // namespace

OpParamDef& OpParamDef::ParamType(Option type) {
    if (type_ != IGNORE) {
        Broken("ParamType of '" + name_ + "' is given twice");
    }
    type_ = type;
    return *this;
}

OpParamDef& OpParamDef::DataType(std::vector<ge::DataType> types) {
    SetOnce(types_, std::move(types), "DataType of '" + name_ + "'");
    return *this;
}

OpParamDef& OpParamDef::Format(std::vector<ge::Format> formats) {
    SetOnce(formats_, std::move(formats), "Format of '" + name_ + "'");
    return *this;
}

OpParamDef& OpParamDef::UnknownShapeFormat(std::vector<ge::Format> formats) {
    SetOnce(unknown_formats_, std::move(formats), "UnknownShapeFormat of '" + name_ + "'");
    return *this;
}

OpAICoreConfig& OpAICoreConfig::Set(const char* name, bool flag) {
    for (const auto& [known, value] : flags_) {
        if (known == name) {
            Broken(std::string(name) + " is given twice");
        }
    }
    flags_.emplace_back(name, flag);
    return *this;
}

OpAICoreDef& OpAICoreDef::SetTiling(TilingFunc func) {
    tiling_ = func;
    return *this;
}

OpAICoreDef& OpAICoreDef::AddConfig(const char* soc, OpAICoreConfig& config) {
    const std::string name = soc;
    for (const char c : name) {
        if (std::isupper(static_cast<unsigned char>(c))) {
            Broken("AddConfig takes the lower-case short name of a chip, not '" + name + "'");
        }
    }
    for (const auto& [known, value] : configs_) {
        if (known == name) {
            Broken("AddConfig for '" + name + "' is given twice; the last one would win");
        }
    }
    configs_.emplace_back(name, config);
    return *this;
}

OpDef& OpDef::SetInferShape(InferShapeFunc func) {
    infer_shape_ = func;
    return *this;
}

OpDef& OpDef::SetInferDataType(InferDataTypeFunc func) {
    infer_data_type_ = func;
    return *this;
}

OpParamDef& OpDef::Add(std::deque<OpParamDef>& params, const char* name) {
    params.emplace_back(name);
    return params.back();
}

void OpDef::Check() const {
    // The tools derive the kernel's name from the type: capitals become underscores.
    bool good = !type_.empty() && std::isupper(static_cast<unsigned char>(type_[0]));
    for (const char c : type_) {
        good = good && std::isalnum(static_cast<unsigned char>(c));
    }
    if (!good) {
        Broken("the op type '" + type_ + "' is not [A-Z][A-Za-z0-9]*");
    }
    if (inputs_.empty() || outputs_.empty()) {
        Broken("an op needs an input and an output; there are " + std::to_string(inputs_.size()) + " and " +
               std::to_string(outputs_.size()));
    }
    std::set<std::string> seen;
    const size_t columns = inputs_.front().Types().size();
    for (const OpParamDef& param : inputs_) {
        CheckName(param.Name(), "an input", seen);
        CheckParam(param, "input '" + param.Name() + "'", columns);
    }
    for (const OpParamDef& param : outputs_) {
        CheckName(param.Name(), "an output", seen);
        CheckParam(param, "output '" + param.Name() + "'", columns);
    }
    if (columns == 0) {
        Broken("input '" + inputs_.front().Name() + "': no DataType");
    }
    if (infer_shape_ == nullptr || infer_data_type_ == nullptr || aicore_.Tiling() == nullptr) {
        Broken("SetInferShape, SetInferDataType and SetTiling are all needed");
    }
    if (aicore_.Configs().empty()) {
        Broken("no AddConfig: the op would be found on no chip");
    }
}

}  // namespace ops
