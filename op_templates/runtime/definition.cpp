#include "definition.h"

#include <algorithm>

#include "error.h"
#include "wire.h"

namespace taf {

namespace {

constexpr uint64_t kSchemaVersion = 1;
constexpr size_t kMaxRank = 25;  // of gert::Shape

struct RawParam {
    std::string name;
    std::string dtype;
    std::vector<std::string> dims;
};

struct RawStep {
    std::string name;
    std::string value;
};

struct RawSchedule {
    std::string soc;
    uint64_t npu_arch = 0, vector_cores = 0, ub_bytes = 0, ub_limit_bytes = 0;
    std::vector<RawStep> steps;
    std::vector<std::string> fields;
    std::string block_dim, tiling_key, workspace_bytes, ub_used;
};

// Field numbers are those of proto/fused_op.proto; others belong to later releases or are not needed here.
RawParam ReadParam(std::string_view bytes) {
    RawParam made;
    for (WireReader reader(bytes); reader.Next();) {
        switch (reader.Field()) {
            case 1: made.name = reader.Bytes(); break;
            case 2: made.dtype = reader.Bytes(); break;
            case 3: made.dims.emplace_back(reader.Bytes()); break;
            default: break;
        }
    }
    return made;
}

Symbol ReadSymbol(std::string_view bytes) {
    Symbol made;
    made.divisor = 0;  // what a message without the field says
    for (WireReader reader(bytes); reader.Next();) {
        switch (reader.Field()) {
            case 1: made.name = reader.Bytes(); break;
            case 2: made.input = static_cast<size_t>(reader.Number()); break;
            case 3: made.dim = static_cast<size_t>(reader.Number()); break;
            case 4: made.divisor = static_cast<int64_t>(reader.Number()); break;
            default: break;
        }
    }
    return made;
}

RawStep ReadStep(std::string_view bytes) {
    RawStep made;
    for (WireReader reader(bytes); reader.Next();) {
        switch (reader.Field()) {
            case 1: made.name = reader.Bytes(); break;
            case 2: made.value = reader.Bytes(); break;
            default: break;
        }
    }
    return made;
}

RawSchedule ReadSchedule(std::string_view bytes) {
    RawSchedule made;
    for (WireReader reader(bytes); reader.Next();) {
        switch (reader.Field()) {
            case 1: made.soc = reader.Bytes(); break;
            case 2: made.npu_arch = reader.Number(); break;
            case 4: made.vector_cores = reader.Number(); break;
            case 5: made.ub_bytes = reader.Number(); break;
            case 6: made.ub_limit_bytes = reader.Number(); break;
            case 7: made.steps.push_back(ReadStep(reader.Bytes())); break;
            case 8: made.fields.emplace_back(reader.Bytes()); break;
            case 9: made.block_dim = reader.Bytes(); break;
            case 10: made.tiling_key = reader.Bytes(); break;
            case 11: made.workspace_bytes = reader.Bytes(); break;
            case 12: made.ub_used = reader.Bytes(); break;
            default: break;
        }
    }
    return made;
}

Param TypedParam(const RawParam& raw, const Slots& symbols) {
    static constexpr struct { const char* name; int ge_type; size_t itemsize; } kTypes[] = {
        {"f32", 0, 4}, {"f16", 1, 2}, {"i8", 2, 1}, {"i32", 3, 4}, {"u8", 4, 1}, {"i16", 6, 2}, {"u16", 7, 2},
        {"u32", 8, 4}, {"i64", 9, 8}, {"u64", 10, 8}, {"f64", 11, 8}, {"bool", 12, 1}, {"bf16", 27, 2}};
    const auto* const type = std::find_if(std::begin(kTypes), std::end(kTypes),
                                          [&](const auto& t) { return raw.dtype == t.name; });
    if (raw.name.empty() || type == std::end(kTypes) || raw.dims.size() > kMaxRank) {
        throw Error("parameter '" + raw.name + "' has no name, more than 25 dims, or an unknown type '" + raw.dtype +
                    "'");
    }
    Param made{raw.name, type->ge_type, type->itemsize, {}};
    for (const std::string& dim : raw.dims) {
        made.dims.push_back(SizeExpression::Parse(dim, symbols));
    }
    return made;
}

// autofuse_pointwise_k27e4 for AutofusePointwiseK27e4
std::string EntryOf(const std::string& op_type) {
    std::string entry;
    for (const char c : op_type) {
        const bool upper = c >= 'A' && c <= 'Z';
        const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (!(upper || (plain && !entry.empty()))) {
            throw Error("'" + op_type + "' is not an op type");
        }
        if (upper) {
            entry += entry.empty() ? "" : "_";
        }
        entry += upper ? static_cast<char>(c - 'A' + 'a') : c;
    }
    return entry;
}

void Declare(Slots& slots, const std::string& name) {
    const size_t place = slots.size();
    if (name.empty() || !slots.emplace(name, place).second) {
        throw Error("'" + name + "' is no name, or is taken");
    }
}

Schedule TypedSchedule(const RawSchedule& raw, Slots slots) {
    constexpr uint64_t kMost = uint64_t{1} << 40;
    if (raw.vector_cores == 0 || raw.vector_cores > 0xffff || raw.ub_bytes > kMost || raw.ub_limit_bytes > kMost ||
        raw.npu_arch > kMost) {
        throw Error("the schedule for " + raw.soc + " has impossible facts of the chip");
    }
    Schedule made;
    made.npu_arch = static_cast<int64_t>(raw.npu_arch);
    made.vector_cores = static_cast<int64_t>(raw.vector_cores);
    made.ub_bytes = static_cast<int64_t>(raw.ub_bytes);
    made.ub_limit_bytes = static_cast<int64_t>(raw.ub_limit_bytes);
    Declare(slots, "core_num");
    Declare(slots, "ub_bytes");
    const size_t first_step = slots.size();
    for (const RawStep& step : raw.steps) {
        made.steps.push_back(TilingExpression::Parse(step.value, slots));
        Declare(slots, step.name);
    }
    for (const std::string& field : raw.fields) {
        const auto found = slots.find(field);
        if (found == slots.end() || found->second < first_step) {
            throw Error("tiling data '" + field + "' is no step");
        }
        made.fields.push_back(found->second);
    }
    made.block_dim = TilingExpression::Parse(raw.block_dim, slots);
    made.tiling_key = TilingExpression::Parse(raw.tiling_key, slots);
    made.workspace_bytes = TilingExpression::Parse(raw.workspace_bytes, slots);
    made.ub_used = TilingExpression::Parse(raw.ub_used, slots);
    return made;
}

}  // namespace

Definition Definition::Read(std::string_view bytes, std::string_view soc) {
    Definition made;
    uint64_t version = 0;
    std::vector<RawParam> inputs, outputs;
    std::vector<RawSchedule> schedules;
    std::string socs;
    for (WireReader reader(bytes); reader.Next();) {
        const std::string_view mine = reader.Field() >= 2 && reader.Field() <= 9 ? reader.Bytes() : std::string_view();
        switch (reader.Field()) {
            case 1: version = reader.Number(); break;
            case 2: made.op_type = mine; break;
            case 4: inputs.push_back(ReadParam(mine)); break;
            case 5: outputs.push_back(ReadParam(mine)); break;
            case 6: made.symbols.push_back(ReadSymbol(mine)); break;
            case 9:
                schedules.push_back(ReadSchedule(mine));
                socs += (socs.empty() ? "" : ", ") + schedules.back().soc;
                if (schedules.back().soc != soc) {
                    schedules.pop_back();
                    continue;
                }
                break;
            default: continue;  // the body, provenance, what later releases add
        }
        made.identity += std::to_string(reader.Field()) + ":" + std::to_string(mine.size()) + ":" + std::string(mine);
    }
    if (version != kSchemaVersion) {
        throw Error("a definition of schema version " + std::to_string(version) + "; this release reads 1");
    }
    made.entry = EntryOf(made.op_type);
    if (outputs.empty() || schedules.empty()) {
        throw Error(made.op_type + (outputs.empty() ? ": there is no output"
                                                    : ": there is no schedule for " + std::string(soc) +
                                                          "; recorded: " + (socs.empty() ? "none" : socs)));
    }
    try {
        Slots slots;
        for (const Symbol& s : made.symbols) {
            if (s.input >= inputs.size() || s.dim >= inputs[s.input].dims.size() || s.divisor < 1) {
                throw Error("symbol " + s.name + " is read from an input or dim that is not there");
            }
            Declare(slots, s.name);
        }
        for (const RawParam& p : inputs) {
            made.inputs.push_back(TypedParam(p, slots));
        }
        for (const RawParam& p : outputs) {
            made.outputs.push_back(TypedParam(p, slots));
        }
        made.schedule = TypedSchedule(schedules.back(), slots);
    } catch (const Error& error) {
        throw Error(made.op_type + ": " + error.what());
    }
    return made;
}

}  // namespace taf
