#include "neurim/train/parallel_options.h"

#include <charconv>

#include "neurim/base/error.h"
#include "neurim/base/text.h"

namespace neurim {

namespace {

constexpr std::int64_t kMostSteps = 1 << 20;

/// The number behind "ssp:"; nothing where it is none.
std::optional<std::int64_t> steps_of(const std::string& sync, std::string_view kind) {
  if (sync.substr(0, kind.size()) != kind) return {};
  std::int64_t steps = -1;
  const char* const end = sync.data() + sync.size();
  const auto [stopped, error] = std::from_chars(sync.data() + kind.size(), end, steps);
  return error == std::errc() && stopped == end && steps >= 0 && steps <= kMostSteps ? std::optional(steps)
                                                                                     : std::nullopt;
}

}  // namespace

void ParallelOptions::visit(Options& o) {
  o.topic("several processes");
  o("sync", sync,
    "bsp: every step has the gradients of all processes; ssp:S: one may be S steps ahead of the slowest; local:K: each "
    "steps by itself, and every K steps weights become means");
  o("zero", zero,
    "1: each process keeps the optimizer's state of a share of the weights; 2: and the gradients of that share alone");
  o("sync_bn", sync_bn, "batch norm takes the statistics of the samples of all processes");
  o("pipeline", pipeline, "stages into which the model is cut, a process each; what they take, they hand on");
  o("microbatches", microbatches, "pipeline: parts of a batch that are on their way through the stages",
    {"micro_batches"});
  o("pipeline_schedule", schedule, "pipeline: 1f1b, or gpipe: all parts go forward before the first goes back");
  o("tensor", tensor, "processes that compute wide layers and attention together, a part of their outputs each");
  o("compress", compress, "none, or bf16 or f16: what gradients are rounded to on their way to other processes");
}

Sync ParallelOptions::how() const {
  if (const auto steps = steps_of(sync, "ssp:")) return {Sync::Kind::stale, *steps};
  if (const auto steps = steps_of(sync, "local:"); steps.value_or(0) > 0) return {Sync::Kind::local, *steps};
  require(sync == "bsp", "sync is '", sync, "'; known are bsp, ssp:S with S from 0 on, local:K with K from 1 on");
  return {};
}

std::string ParallelOptions::idle() const {
  std::vector<std::string> given;
  if (how().kind != Sync::Kind::together) given.push_back(text("sync=", sync));
  if (sent() != DType::f32) given.push_back(text("compress=", compress));
  if (zero > 0) given.push_back(text("zero=", zero));
  if (sync_bn) given.emplace_back("sync_bn=true");
  return join(given, ", ");
}

DType ParallelOptions::sent() const {
  if (compress == "none") return DType::f32;
  if (compress == "bf16") return DType::bf16;
  require(compress == "f16" || compress == "fp16", "compress is '", compress, "'; known are none, bf16, f16");
  return DType::f16;
}

void ParallelOptions::check(bool deterministic, DType compute_dtype) const {
  sent();
  require(zero >= 0 && zero <= 2, "zero is ", zero, "; it is 0, 1 or 2");
  const bool together = how().kind == Sync::Kind::together;
  require(together || zero == 0, "zero is ", zero, ", where processes step together; with sync=", sync,
          " each has all state: leave zero out");
  require(pipeline >= 1 && pipeline <= 64, "pipeline is ", pipeline, "; it is 1 to 64");
  require(microbatches >= 1 && microbatches <= 1 << 16, "microbatches is ", microbatches, "; it is 1 to 65536");
  require(schedule == "1f1b" || schedule == "gpipe", "pipeline_schedule is '", schedule, "'; known are 1f1b, gpipe");
  require(tensor >= 1 && tensor <= 64, "tensor is ", tensor, "; it is 1 to 64");
  require(pipeline == 1 || tensor == 1, "pipeline is ", pipeline, " and tensor is ", tensor, "; give one of them");
  require((pipeline == 1 && tensor == 1) || (together && zero == 0 && !sync_bn),
          pipeline > 1 ? "pipeline is " : "tensor is ", pipeline > 1 ? pipeline : tensor,
          ", whose processes keep the state of their own weights and step together; leave ",
          !together  ? "sync"
          : zero > 0 ? "zero"
                     : "sync_bn",
          " out");
  require(together || !sync_bn, "sync_bn is true, where processes step together; with sync=", sync, " leave it out");
  require(together || !deterministic, "sync is ", sync,
          ", which takes what other processes have sent by then; with deterministic=true it is bsp");
  require(!deterministic || !sync_bn,
          "sync_bn is true, and with deterministic=true batches are taken in parts, whose statistics are their own; "
          "leave one of them out");
  require(together || sent() == DType::f32, "compress is ", compress, ", and what goes with sync=", sync,
          " is f32; leave compress out");
  require(!deterministic || (pipeline == 1 && tensor == 1), "deterministic is true, and ",
          pipeline > 1 ? "a pipeline" : "a team", " takes batches in parts of its own; leave one of them out");
  require(together || compute_dtype != DType::f16, "sync is ", sync,
          ", and with precision=fp16 processes have to scale their losses alike: give precision=bf16");
  require(tensor == 1 || compute_dtype == DType::f32, "tensor is ", tensor,
          ", and what processes hand on is f32; leave precision out");
}

}  // namespace neurim
