#include <algorithm>
#include <numeric>
#include <set>

#include "neurim/base/error.h"
#include "neurim/compile/program.h"
#include "neurim/ops/common/rules.h"

namespace neurim {

namespace {

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// Scratch and workspaces up to this size share one address range for all tasks, so that a thread finds its lines in
/// its own cache. Memory that held a tensor before is often in another thread's cache.
constexpr std::size_t kSharedScratch = std::size_t{1} << 22, kSharedWorkspace = std::size_t{1} << 21;

/// The first and the last task that touch a piece of the arena.
struct Span {
  int first = -1, last = -1;
  void touch(int task) {
    if (first < 0) first = task;
    last = std::max(last, task);
  }
};

class MemoryPlanner {
 public:
  explicit MemoryPlanner(Program& program) : program_(program) {}

  void run() {
    commit_in_place();
    join_in_place();
    reuse_inputs();
    place();
  }

 private:
  Slot& slot(int number) { return program_.slots[number]; }
  int tasks() const { return static_cast<int>(program_.tasks.size()); }
  Task& task(int number) { return program_.tasks[number]; }
  const Op* only_op(const Task& task) const {
    return task.nodes.size() == 1 ? program_.graph.nodes[task.nodes[0]].op.get() : nullptr;
  }
  bool checks(const Task& task) const {
    return std::any_of(task.nodes.begin(), task.nodes.end(),
                       [&](int node) { return program_.graph.nodes[node].op->checks_data(); });
  }

  Type type_of(int number) const { return program_.type(program_.slots[number]); }

  /// Whether the task may write its output `out` over `memory` from `shift` on, although it may read it.
  bool may_overwrite(const Task& task, int out, int memory, std::size_t shift = 0) const {
    const Op* op = only_op(task);
    for (std::size_t i = 0; i < task.in.size(); ++i) {
      if (program_.owner(task.in[i]) != memory) continue;
      // Other parts of the same memory, and a part that is broadcast, are read after their place was written.
      if (program_.shift(task.in[i]) != shift || type_of(task.in[i]) != type_of(out)) return false;
      const auto at = std::find(task.out.begin(), task.out.end(), out);
      if (!op || op->alias(static_cast<int>(at - task.out.begin()), static_cast<int>(i)) != Alias::overwrite)
        return false;
    }
    return true;
  }

  /// A task writes the new value of a state in place if no later task reads the old value or may find the step's data
  /// at fault.
  void commit_in_place() {
    int last_check = -1;
    for (int t = 0; t < tasks(); ++t)
      if (checks(task(t))) last_check = t;
    std::vector<Task> kept;
    std::vector<char> drop(program_.tasks.size(), 0);
    for (int t = 0; t < tasks(); ++t) {
      const Task& commit = task(t);
      if (!commit.commits || !commit.nodes.empty()) continue;
      const int from = commit.in[0], state = commit.out[0];
      if (slot(from).layout != slot(state).layout || slot(from).alias >= 0 || slot(from).place != Slot::arena) continue;
      int maker = -1;
      bool harmless = true;
      for (int u = 0; u < tasks(); ++u) {
        if (u == t || drop[u]) continue;
        if (std::count(task(u).out.begin(), task(u).out.end(), from)) maker = u;
        const bool touches = std::any_of(task(u).in.begin(), task(u).in.end(),
                                         [&](int in) { return program_.owner(in) == state; });
        if (maker >= 0 && u > maker && touches) harmless = false;
      }
      if (maker <= last_check || !harmless || !may_overwrite(task(maker), from, state)) continue;
      slot(from).alias = state;
      task(maker).commits = true;
      drop[t] = 1;
    }
    for (int t = 0; t < tasks(); ++t)
      if (!drop[t]) kept.push_back(std::move(task(t)));
    program_.tasks = std::move(kept);
  }

  /// Inputs of a concatenation are computed in their places in its output where that is possible; its task is dropped.
  void join_in_place() {
    std::vector<Task> kept;
    for (Task& each : program_.tasks) {
      const Op* op = only_op(each);
      const std::optional<int> axis = op ? op->fusion().concat_axis : std::nullopt;
      if (!axis || !joins_runs(each, *axis)) {
        kept.push_back(std::move(each));
        continue;
      }
      std::size_t begin = 0;
      for (const int in : each.in) {
        slot(in).alias = each.out[0], slot(in).shift = begin;
        begin += bytes(type_of(in), slot(in).layout);
      }
    }
    program_.tasks = std::move(kept);
  }

  /// Whether each input is one contiguous range of the output, and its memory may be there.
  bool joins_runs(const Task& task, int concat_axis) {
    const int out = task.out[0];
    const Layout& layout = slot(out).layout;
    const Shape& shape = type_of(out).shape;
    const int axis = normal_axis(concat_axis, shape.rank(), "concat");
    const bool channels = layout.kind == Layout::blocked && axis == 1;
    if ((layout.kind != Layout::plain && !channels) || slot(out).place != Slot::arena || slot(out).alias >= 0)
      return false;
    for (int before = 0; before < axis; ++before)
      if (shape[before] != 1) return false;
    std::set<int> seen;
    return std::all_of(task.in.begin(), task.in.end(), [&](int in) {
      const Slot& own = slot(in);
      const bool fills = !channels || type_of(in).shape[1] % layout.block == 0;
      return own.place == Slot::arena && own.alias < 0 && own.layout == layout && fills &&
             bytes(type_of(in), layout) % kAlignment == 0 && seen.insert(in).second;
    });
  }

  std::vector<Span> lifetimes() {
    std::vector<Span> spans(program_.slots.size());
    for (int t = 0; t < tasks(); ++t) {
      for (int in : task(t).in) spans[program_.owner(in)].touch(t);
      for (int out : task(t).out) spans[program_.owner(out)].touch(t);
    }
    return spans;
  }

  /// An output takes the memory of an input that no later task reads.
  void reuse_inputs() {
    std::vector<Span> spans = lifetimes();
    for (int t = 0; t < tasks(); ++t) {
      const Op* op = only_op(task(t));
      if (!op) continue;
      for (std::size_t o = 0; o < task(t).out.size(); ++o) {
        const int out = task(t).out[o];
        if (slot(out).alias >= 0 || slot(out).place != Slot::arena) continue;
        for (std::size_t i = 0; i < task(t).in.size(); ++i) {
          const int in = task(t).in[i], memory = program_.owner(in);
          if (op->alias(static_cast<int>(o), static_cast<int>(i)) != Alias::overwrite) continue;
          if (slot(memory).place != Slot::arena || spans[memory].last != t) continue;
          if (slot(in).layout != slot(out).layout || program_.type(slot(in)) != program_.type(slot(out))) continue;
          if (!may_overwrite(task(t), out, memory, program_.shift(in))) continue;
          slot(out).alias = in;
          spans[memory].last = std::max(t, spans[out].last);
          break;
        }
      }
    }
  }

  /// Greedy by size: the largest piece first, each at the lowest offset where it overlaps no piece alive at the same
  /// time (Pisarchyk and Lee, "Efficient memory management for deep neural net inference", 2020).
  void place() {
    struct Piece {
      std::size_t bytes;
      Span span;
      std::size_t* offset;
    };
    std::vector<Piece> pieces;
    const std::vector<Span> spans = lifetimes();
    for (std::size_t s = 0; s < program_.slots.size(); ++s) {
      Slot& own = program_.slots[s];
      if (own.place == Slot::arena && own.alias < 0 && spans[s].first >= 0)
        pieces.push_back(
            {aligned(std::max<std::size_t>(bytes(program_.type(own), own.layout), 1)), spans[s], &own.offset});
    }
    std::size_t shared = 0, shared_offset = 0;
    for (int t = 0; t < tasks(); ++t)
      if (task(t).scratch > kSharedScratch)
        pieces.push_back({aligned(task(t).scratch), {t, t}, &task(t).scratch_offset});
      else
        shared = std::max(shared, aligned(task(t).scratch));
    if (shared) pieces.push_back({shared, {0, tasks()}, &shared_offset});
    std::size_t workspace_step = 0, workspaces = 0, workspace_offset = 0;
    for (int t = 0; t < tasks(); ++t) {
      const Launch& launch = task(t).launch;
      task(t).workspace_step = launch.workspace_step();
      if (launch.workspace_step() > kSharedWorkspace)
        pieces.push_back({launch.workspace_bytes(), {t, t}, &task(t).workspace_offset});
      else if (launch.workspace > 0)
        workspace_step = std::max(workspace_step, launch.workspace_step()),
        workspaces = std::max(workspaces, static_cast<std::size_t>(launch.max_concurrency));
    }
    if (workspace_step) pieces.push_back({workspaces * workspace_step, {0, tasks()}, &workspace_offset});
    std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.bytes > b.bytes; });
    std::vector<const Piece*> placed;  // by offset
    for (const Piece& piece : pieces) {
      std::size_t at = 0;
      for (const Piece* other : placed) {
        if (other->span.last < piece.span.first || piece.span.last < other->span.first) continue;
        if (at + piece.bytes <= *other->offset) break;
        at = std::max(at, *other->offset + other->bytes);
      }
      *piece.offset = at;
      placed.insert(std::upper_bound(placed.begin(), placed.end(), at,
                                     [](std::size_t offset, const Piece* other) { return offset < *other->offset; }),
                    &piece);
      program_.arena_bytes = std::max(program_.arena_bytes, at + piece.bytes);
    }
    for (int t = 0; t < tasks(); ++t) {
      if (task(t).scratch <= kSharedScratch) task(t).scratch_offset = shared_offset;
      if (task(t).workspace_step <= kSharedWorkspace)
        task(t).workspace_offset = workspace_offset, task(t).workspace_step = workspace_step;
    }
  }

  Program& program_;
};

}  // namespace

void plan_memory(Program& program) { MemoryPlanner(program).run(); }

}  // namespace neurim
