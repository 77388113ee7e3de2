#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "neurim/base/error.h"
#include "neurim/compile/constants.h"
#include "neurim/compile/fusion_groups.h"
#include "neurim/graph/kernel.h"
#include "neurim/graph/value.h"

namespace neurim {

namespace {

/// The op that reorder kernels register for: a copy into another layout, or the same one. It occurs in no graph.
class Reorder final : public Op {
 public:
  std::string_view name() const override { return "reorder"; }
  Types infer(std::span<const Type> in) const override { return {in[0]}; }
  std::vector<Sample> samples() const override { return {}; }
};

/// The reorder for devices without a kernel for it: element by element, on the host.
struct HostReorder {
  Type type;
  Layout from, to;
};

void run_reorder(const void* self, const Args& args, int) noexcept {
  const auto& reorder = *static_cast<const HostReorder*>(self);
  if (reorder.from == reorder.to) {
    std::copy_n(static_cast<const char*>(args.in[0]), bytes(reorder.type, reorder.to), static_cast<char*>(args.out[0]));
  } else if (reorder.to.kind == Layout::plain) {
    unpack(reorder.type, reorder.from, args.in[0], args.out[0]);
  } else if (reorder.from.kind == Layout::plain) {
    pack(reorder.type, reorder.to, args.in[0], args.out[0]);
  } else {
    unpack(reorder.type, reorder.from, args.in[0], args.scratch);
    pack(reorder.type, reorder.to, args.scratch, args.out[0]);
  }
}

constexpr std::size_t kLarge = std::size_t{1} << 24;  // bytes of a state

class Lowering {
 public:
  Lowering(Graph graph, const LowerOptions& options) : options_(options) {
    program_.graph = std::move(graph);
    program_.graph.values.shrink_to_fit();
    primary_.assign(values().size(), -1);
    groups_.emplace(program_.graph, options_);
  }

  Program run() {
    for (std::size_t i = 0; i < program_.graph.inputs.size(); ++i) {
      const int slot = new_slot(program_.graph.inputs[i], {});
      program_.slots[slot].place = Slot::input;
      program_.slots[slot].index = static_cast<int>(i);
      program_.inputs.push_back(slot);
    }
    formed_ = groups_->form();
    group_of_.resize(nodes().size());
    for (std::size_t group = 0; group < formed_.size(); ++group)
      for (const int member : formed_[group].nodes) group_of_[member] = static_cast<int>(group);
    scheduled_.assign(formed_.size(), 0), lowered_.assign(formed_.size(), 0);
    waiting_for_.resize(formed_.size()), waits_for_.assign(formed_.size(), 0);
    find_endings();
    find_beginnings();
    for (int group = 0; group < static_cast<int>(formed_.size()); ++group) schedule(group);
    for (std::size_t i = 0; i < program_.graph.outputs.size(); ++i)
      lower_output(program_.graph.outputs[i], static_cast<int>(i));
    lower_commits();  // last: outputs may be old values of states
    drop_unread_constants();
    return std::move(program_);
  }

 private:
  const std::vector<Graph::Node>& nodes() const { return program_.graph.nodes; }
  const std::vector<Graph::Value>& values() const { return program_.graph.values; }
  const Graph::Node& node(int n) const { return nodes()[n]; }
  const Type& type(int value) const { return values()[value].type; }
  Slot& slot(int number) { return program_.slots[number]; }

  // --- fusion groups ---

  /// Lowers a group after those whose values it reads. Otherwise groups are in the order of their anchors, except for
  /// endings.
  void schedule(int group) {
    if (scheduled_[group]) return;
    scheduled_[group] = 1;
    for (const int maker : makers(group)) schedule(maker);
    lower_group(formed_[group]);
    lowered_[group] = 1;
    for (const int waiting : waiting_for_[group])
      if (--waits_for_[waiting] == 0) release(waiting);
  }
  /// Schedules a group that has waited, unless one that it reads is just waiting for its own makers.
  void release(int group) {
    for (const int maker : pointwise_before(group))
      if (scheduled_[maker] && !lowered_[maker]) schedule_after(group, {maker});
    if (waits_for_[group] == 0) schedule(group);
  }
  /// Lowers a group as soon as these are.
  void schedule_after(int group, const std::set<int>& before) {
    for (const int other : before) waiting_for_[other].push_back(group);
    waits_for_[group] += static_cast<int>(before.size());
  }

  /// The fusion groups whose values it reads.
  std::set<int> makers(int group) const {
    std::set<int> found;
    for (int member : formed_[group].nodes)
      for (int value : node(member).in)
        if (const int maker = values()[value].node; maker >= 0) found.insert(group_of_[maker]);
    found.erase(group);
    return found;
  }

  /// Groups that only compute large new states, such as optimizer steps, are lowered as soon as nothing else reads the
  /// old states and no later check of data can fail: then the gradient's memory is free. Small ones wait for the end:
  /// between other tasks they would evict from the caches what these tasks pass on.
  void find_endings() {
    std::map<int, std::vector<int>> states;  // that each group computes
    for (const auto& commit : program_.graph.commits) {
      const int maker = values()[commit.value].node;
      if (maker >= 0) states[group_of_[maker]].push_back(commit.state);
    }
    std::set<int> checks;
    for (int n = 0; n < std::ssize(nodes()); ++n)
      if (node(n).op->checks_data()) checks.insert(group_of_[n]);
    for (const auto& [group, own] : states) {
      if (std::none_of(own.begin(), own.end(), [&](int state) { return bytes(type(state)) >= kLarge; })) continue;
      std::set<int> after, before = makers(group);
      for (const int member : formed_[group].nodes)
        for (const int value : node(member).out) add_readers(value, after);
      const bool kept = std::any_of(own.begin(), own.end(), [&](int state) { return add_readers(state, before); });
      after.erase(group), before.erase(group);
      if (!after.empty() || kept) continue;
      before.insert(checks.begin(), checks.end());
      schedule_after(group, before);
    }
  }

  /// Groups that begin what goes on beside others (Op::begins_early) are lowered as soon as what is computed for them
  /// is there; pointwise groups on the way to it are brought forward with them.
  void find_beginnings() {
    int previous = -1;
    for (int group = 0; group < std::ssize(formed_); ++group) {
      if (!node(formed_[group].anchor_node()).op->begins_early()) continue;
      std::set<int> before;
      for (const int reader : pointwise_before(group))
        for (const int maker : makers(reader))
          if (!is_pointwise(maker)) before.insert(maker);
      if (previous >= 0) before.insert(previous);
      schedule_after(group, before);
      previous = group;
    }
  }
  /// The group, and the pointwise ones through which it reads what others compute.
  std::set<int> pointwise_before(int group) const {
    std::set<int> found{group};
    std::vector<int> reads{group};
    while (!reads.empty()) {
      const std::set<int> read = makers(reads.back());
      reads.pop_back();
      for (const int maker : read)
        if (is_pointwise(maker) && found.insert(maker).second) reads.push_back(maker);
    }
    return found;
  }
  bool is_pointwise(int group) const {
    return std::all_of(formed_[group].nodes.begin(), formed_[group].nodes.end(),
                       [&](int member) { return node(member).op->fusion().pointwise; });
  }

  /// Adds the groups that read a value, or a result that may share its memory; returns whether one of these is needed
  /// outside of the graph.
  bool add_readers(int value, std::set<int>& found) const {
    bool wanted = groups_->wanted_outside(value);
    for (const int reader : groups_->readers(value)) {
      found.insert(group_of_[reader]);
      if (!node(reader).op->fusion().data_movement) continue;
      for (const int picked : node(reader).out) wanted |= add_readers(picked, found);
    }
    return wanted;
  }

  // --- slots and layouts -----------------------------------------------------------------------------------------

  int new_slot(int value, Layout layout) {
    Slot added;
    added.value = value;
    added.layout = layout;
    program_.slots.push_back(added);
    const int number = static_cast<int>(program_.slots.size()) - 1;
    if (primary_[value] < 0) primary_[value] = number;
    in_layout_[value].push_back(number);
    return number;
  }

  int primary(int value) {
    int& number = primary_[value];
    if (number < 0) {
      const Tensor& captured = values()[value].captured;
      NEURIM_ASSERT(captured);
      new_slot(value, captured.value()->layout);
      slot(number).place = Slot::stored;
      slot(number).tensor = captured;
    }
    return number;
  }

  /// The present layout of a value; plain before it is lowered.
  Layout layout_now(int value) {
    const Tensor& captured = values()[value].captured;
    if (primary_[value] >= 0) return slot(primary_[value]).layout;
    return captured ? captured.value()->layout : Layout{};
  }

  /// The slot of a value in a layout: an existing one, that of a state or constant that is repacked for good, or the
  /// result of a reorder task. The layout is a copy, as it may come from a slot: new slots move those that are there.
  int slot_in(int value, Layout layout) {
    const int first = primary(value);
    for (int number : in_layout_[value])
      if (slot(number).layout == layout) return number;
    Slot& standing = slot(first);
    if (standing.place == Slot::stored && standing.tensor.value()->constant) {
      const Tensor copy = shared_constants(text("layout ", layout), {standing.tensor},
                                           [&] { return Tensors{repacked(standing.tensor, layout)}; })[0];
      const int number = new_slot(value, layout);
      slot(number).place = Slot::stored;
      slot(number).tensor = copy;
      return number;
    }
    if (const auto source = made_from(layout)) {
      const int from = slot_in(value, *source), number = new_slot(value, layout);
      add_reorder(from, number);
      return number;
    }
    if (standing.place == Slot::stored && options_.training && !repacked_.count(value) && !read_.count(first)) {
      repacked_.insert(value);
      repack(standing.tensor, layout);
      standing.layout = layout;
      return first;
    }
    const int number = new_slot(value, layout);
    add_reorder(first, number);
    return number;
  }

  static std::optional<Layout> made_from(const Layout& layout) {
    return layout.kind == Layout::packed ? packed_format(layout.format).made_from : std::nullopt;
  }

  void add_reorder(int from, int to) {
    Task task;
    task.in = {from};
    task.out = {to};
    task.kernel = from_to(slot(from), slot(to));
    prepare_reorder(program_.type(slot(from)), slot(from).layout, slot(to).layout, task);
    read_.insert(from);
    program_.tasks.push_back(std::move(task));
  }

  void prepare_reorder(const Type& type, const Layout& from, const Layout& to, Task& task) const {
    static const Reorder& op = *new Reorder;
    std::array<TensorDesc, 2> values{{{type, from}, {type, to}}};
    const Step step{&op, {0}, {1}};
    KernelRequest request{
        .steps = {&step, 1}, .values = values, .in = step.in, .out = step.out, .chunks = options_.chunks};
    for (const Kernel& kernel : kernels(op.name(), program_.graph.device.kind)) {
      if (options_.interpret) break;
      task.launch = kernel.prepare(request);
      task.scratch = request.scratch;
      if (task.launch) return;
    }
    task.launch = {run_reorder, std::make_shared<HostReorder>(HostReorder{type, from, to})};
    const bool through_plain = from.kind != Layout::plain && to.kind != Layout::plain && from != to;
    task.scratch = through_plain ? bytes(type) : 0;
  }

  static std::string from_to(const Slot& from, const Slot& to) {
    return from.layout == to.layout ? "copy" : text("reorder ", from.layout, " to ", to.layout);
  }

  // --- tasks -----------------------------------------------------------------------------------------------------

  void lower_group(const FusionGroup& group) {
    const int anchor = group.anchor_node();
    const Op& op = *node(anchor).op;
    const bool alone = group.nodes.size() == 1;
    if (alone && (lower_layout_alias(anchor) || (op.alias(0, 0) == Alias::view && lower_view(anchor)))) return;
    const GroupRequest described = groups_->describe(group, [&](int value) { return layout_now(value); });
    Task task;
    task.nodes = group.nodes;
    task.anchor = anchor;
    task.key = groups_->tuning_key(anchor);
    const auto candidates = kernels(op.name(), program_.graph.device.kind);
    for (const Kernel& kernel : candidates) {
      if (options_.interpret && kernel.rank != 0) continue;
      if (!groups_->may_take(kernel, group)) continue;
      GroupRequest asked = described;
      KernelRequest request = asked.request(options_);
      if (!kernel.propose_layouts)
        for (TensorDesc& desc : asked.descs) desc.layout = {};
      else if (!kernel.propose_layouts(request)) {
        task.declined.push_back(text(kernel.name, ": ", request.why));
        continue;
      }
      if (groups_->superseded(kernel, group)) {
        task.declined.push_back(text(kernel.name, ": another was measured to be faster"));
        continue;
      }
      for (int value : asked.in) {
        TensorDesc& desc = asked.descs[value];
        if (desc.constant && program_.graph.device == Device{})
          desc.known = slot(slot_in(asked.values[value], desc.layout)).tensor.value()->storage->data();
      }
      task.launch = kernel.prepare(request);
      if (!task.launch) {
        task.declined.push_back(text(kernel.name, ": ", request.why));
        continue;
      }
      task.kernel = kernel.name;
      task.compute_dtype = request.used_dtype;
      task.scratch = request.scratch;
      for (int value : asked.in) {
        task.in.push_back(slot_in(asked.values[value], asked.descs[value].layout));
        read_.insert(task.in.back());
      }
      for (int value : asked.out) task.out.push_back(new_slot(asked.values[value], asked.descs[value].layout));
      program_.tasks.push_back(std::move(task));
      return;
    }
    require(!alone, node(anchor).where, node(anchor).where.empty() ? "" : ": ", op.name(), ": no kernel on ",
            program_.graph.device, " takes it (", join(task.declined, "; "), ")");
    // The layouts are not those that the group was formed with, and no kernel accepts it: its last nodes leave it.
    FusionGroup rest = group, left;
    if (group.anchor + 1 < std::ssize(group.nodes)) {
      const auto joined = [&](int n) {
        return std::any_of(node(n).in.begin(), node(n).in.end(), [&](int value) {
          const int maker = values()[value].node;
          return std::find(rest.nodes.begin(), rest.nodes.end(), maker) != rest.nodes.end();
        });
      };
      do left.nodes.insert(left.nodes.begin(), rest.nodes.back()), rest.nodes.pop_back();
      while (std::ssize(rest.nodes) > group.anchor + 1 && !joined(rest.nodes.back()));
      lower_group(rest);
    } else {
      left = rest;
    }
    for (const int member : left.nodes) lower_group({{member}});
  }

  /// Whether the output is the input's memory in another layout (Op::layout_alias); lowers it as such.
  bool lower_layout_alias(int n) {
    if (node(n).in.empty()) return false;
    const int in = node(n).in[0];
    const Layout standing = layout_now(in);
    if (standing == Layout{}) return false;
    const auto layout = node(n).op->layout_alias(type(in), standing);
    if (!layout) return false;
    const int from = slot_in(in, standing);
    read_.insert(from);
    slot(new_slot(node(n).out[0], *layout)).alias = from;
    return true;
  }

  /// Whether the output is a part of the input's memory that begins at an aligned address; lowers it as such. In
  /// blocked layouts too, a range of the first axis is one piece of memory.
  bool lower_view(int n) {
    const int in = node(n).in[0];
    const Type& type = values()[in].type;
    const std::int64_t begin = node(n).op->view_begin({{type}});
    Layout layout;
    Type before{type.dtype, {begin}};
    if (const Layout standing = layout_now(in); split_axis(standing).value_or(0) != 0) {
      Shape whole = values()[node(n).out[0]].type.shape;
      if (whole.rank() == type.shape.rank()) whole[0] = type.shape[0];
      if (whole == type.shape && whole.numel() > 0) {
        layout = standing;
        before.shape = whole, before.shape[0] = begin / (whole.numel() / whole[0]);
      }
    }
    const std::size_t shift = bytes(before, layout);
    if (shift % kAlignment != 0) return false;
    const int from = slot_in(in, layout);
    read_.insert(from);
    Slot& view = slot(new_slot(node(n).out[0], layout));
    view.alias = from;
    view.shift = shift;
    return true;
  }

  /// Adds a copy for each state at the end; plan_memory removes most of them. A state that becomes the old value of
  /// another one reads a snapshot.
  void lower_commits() {
    std::vector<int> from;
    for (const auto& commit : program_.graph.commits) {
      from.push_back(slot_in(commit.value, slot(primary(commit.state)).layout));
      if (slot(program_.owner(from.back())).place != Slot::stored) continue;
      const int snapshot = new_slot(commit.value, slot(from.back()).layout);
      add_reorder(from.back(), snapshot);
      from.back() = snapshot;
    }
    for (std::size_t i = 0; i < from.size(); ++i) {
      add_reorder(from[i], primary(program_.graph.commits[i].state));
      program_.tasks.back().commits = true;
    }
  }

  void lower_output(int value, int index) {
    int number = slot_in(value, {});
    if (slot(number).place != Slot::arena || slot(number).alias >= 0 || slot(number).index >= 0) {
      Slot added;
      added.value = value;
      program_.slots.push_back(added);
      const int copy = static_cast<int>(program_.slots.size()) - 1;
      add_reorder(number, copy);
      number = copy;
    }
    slot(number).place = Slot::output;
    slot(number).index = index;
    program_.outputs.push_back(number);
  }

  /// Drops the captured data of slots that no task reads: most weights are read in packed layouts.
  void drop_unread_constants() {
    std::set<int> read(program_.outputs.begin(), program_.outputs.end());
    for (const Task& task : program_.tasks) {
      read.insert(task.in.begin(), task.in.end());
      read.insert(task.out.begin(), task.out.end());
    }
    for (const Slot& alias : program_.slots)
      if (alias.alias >= 0) read.insert(alias.alias);
    for (int number = 0; number < static_cast<int>(program_.slots.size()); ++number)
      if (slot(number).place == Slot::stored && slot(number).tensor.value()->constant && !read.count(number))
        slot(number).tensor = {};
    for (Graph::Value& value : program_.graph.values)
      if (value.captured && value.captured.value()->constant) value.captured = {};
  }

  const LowerOptions options_;
  Program program_;
  std::optional<FusionGroups> groups_;
  std::vector<FusionGroup> formed_;
  std::vector<int> group_of_;
  std::vector<char> scheduled_, lowered_;      // a group that is scheduled is lowered once its makers are
  std::vector<std::vector<int>> waiting_for_;  // of each fusion group: those that are lowered as soon as it is
  std::vector<int> waits_for_;                 // of each such one: how many groups have to be lowered before it
  std::vector<int> primary_;
  std::map<int, std::vector<int>> in_layout_;
  std::set<int> repacked_, read_;
};

}  // namespace

Program lower(Graph graph, const LowerOptions& options) { return Lowering(std::move(graph), options).run(); }

}  // namespace neurim
