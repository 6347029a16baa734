// Look-alike of register/op_def.h: what an op declares, kept as plain data. Check() holds it to the rules of op
// registration that CANN's tools report late or not at all.
#pragma once

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "exe_graph/runtime/infer_datatype_context.h"
#include "exe_graph/runtime/infer_shape_context.h"
#include "exe_graph/runtime/tiling_context.h"
#include "graph/types.h"

namespace ops {

enum Option { IGNORE = 0, OPTIONAL = 1, REQUIRED = 2, DYNAMIC = 3 };

using TilingFunc = uint32_t (*)(gert::TilingContext*);
using InferShapeFunc = uint32_t (*)(gert::InferShapeContext*);
using InferDataTypeFunc = uint32_t (*)(gert::InferDataTypeContext*);

class OpParamDef {
public:
    explicit OpParamDef(const char* name) : name_(name) {}

    OpParamDef& ParamType(Option type);
    OpParamDef& DataType(std::vector<ge::DataType> types);
    OpParamDef& Format(std::vector<ge::Format> formats);
    OpParamDef& UnknownShapeFormat(std::vector<ge::Format> formats);

    const std::string& Name() const { return name_; }
    Option Type() const { return type_; }
    const std::vector<ge::DataType>& Types() const { return types_; }
    const std::vector<ge::Format>& Formats() const { return formats_; }
    const std::vector<ge::Format>& UnknownFormats() const { return unknown_formats_; }

private:
    std::string name_;
    Option type_ = IGNORE;
    std::vector<ge::DataType> types_;
    std::vector<ge::Format> formats_;
    std::vector<ge::Format> unknown_formats_;
};

class OpAICoreConfig {
public:
    OpAICoreConfig& DynamicCompileStaticFlag(bool flag) { return Set("DynamicCompileStaticFlag", flag); }
    OpAICoreConfig& DynamicFormatFlag(bool flag) { return Set("DynamicFormatFlag", flag); }
    OpAICoreConfig& DynamicRankSupportFlag(bool flag) { return Set("DynamicRankSupportFlag", flag); }
    OpAICoreConfig& DynamicShapeSupportFlag(bool flag) { return Set("DynamicShapeSupportFlag", flag); }
    OpAICoreConfig& NeedCheckSupportFlag(bool flag) { return Set("NeedCheckSupportFlag", flag); }
    OpAICoreConfig& PrecisionReduceFlag(bool flag) { return Set("PrecisionReduceFlag", flag); }

    const std::vector<std::pair<std::string, bool>>& Flags() const { return flags_; }

private:
    OpAICoreConfig& Set(const char* name, bool flag);

    std::vector<std::pair<std::string, bool>> flags_;
};

class OpAICoreDef {
public:
    OpAICoreDef& SetTiling(TilingFunc func);
    OpAICoreDef& AddConfig(const char* soc, OpAICoreConfig& config);

    TilingFunc Tiling() const { return tiling_; }
    const std::vector<std::pair<std::string, OpAICoreConfig>>& Configs() const { return configs_; }

private:
    TilingFunc tiling_ = nullptr;
    std::vector<std::pair<std::string, OpAICoreConfig>> configs_;
};

class OpDef {
public:
    explicit OpDef(const char* type) : type_(type) {}

    OpParamDef& Input(const char* name) { return Add(inputs_, name); }
    OpParamDef& Output(const char* name) { return Add(outputs_, name); }
    OpDef& SetInferShape(InferShapeFunc func);
    OpDef& SetInferDataType(InferDataTypeFunc func);
    OpAICoreDef& AICore() { return aicore_; }

    void Check() const;  // throws RuleError

    const std::string& Type() const { return type_; }
    const std::deque<OpParamDef>& Inputs() const { return inputs_; }
    const std::deque<OpParamDef>& Outputs() const { return outputs_; }
    const OpAICoreDef& Core() const { return aicore_; }
    InferShapeFunc InferShape() const { return infer_shape_; }
    InferDataTypeFunc InferDataType() const { return infer_data_type_; }

private:
    OpParamDef& Add(std::deque<OpParamDef>& params, const char* name);

    std::string type_;
    std::deque<OpParamDef> inputs_;  // references to them stay valid as more are added
    std::deque<OpParamDef> outputs_;
    OpAICoreDef aicore_;
    InferShapeFunc infer_shape_ = nullptr;
    InferDataTypeFunc infer_data_type_ = nullptr;
};

}  // namespace ops
