// Which stretches of a long sequence are samples, and in which order they come.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "neurim/data/order.h"

namespace neurim {

/// A sample is `inputs` steps, and `targets` steps that begin `shift` steps after the first input. A forecast
/// of 3 steps from 12: {12, 3, 12}. The next character at each of 64: {64, 64, 1}.
struct WindowOptions {
  std::int64_t inputs = 32,  ///< steps
      targets = 1,           ///< steps
      shift = 32;            ///< steps from the first input to the first target
  std::int64_t stride = 1;   ///< training samples begin this many steps apart
  // The shares of the sequence at its end: first training, then validation, then test, since what is to be
  // forecast lies in the future. In [0, 1).
  double val_split = 0.1,  ///< share of validation, in [0, 1)
      test_split = 0.1;    ///< share of test, in [0, 1)
};

/// The samples of each split. All targets of a sample lie in its own split; its inputs may reach back into
/// the split before, as they do when a forecast is made. In validation and test each step is a target once,
/// but for a rest shorter than `targets` at the end; so their samples begin `targets` steps apart.
class Windows {
 public:
  /// Of a sequence of so many steps; `path` is what errors call it. Throws Error(usage) on options out of
  /// range, Error(data) where training has no room for a sample.
  Windows(std::int64_t steps, const WindowOptions& options, const std::string& path);

  const WindowOptions& options() const { return options_; }           ///< as constructed
  std::int64_t size(Split split) const { return of(split).samples; }  ///< samples
  /// Steps of validation or test that are no target: that rest, and those before which there are too few inputs.
  std::int64_t left_out(Split split) const { return of(split).steps - of(split).samples * options_.targets; }
  /// The step of the sequence at which the inputs of a sample begin.
  std::int64_t first_input(Split split, std::int64_t sample) const {
    return of(split).first + sample * of(split).stride;
  }
  /// The step at which its targets begin.
  std::int64_t first_target(Split split, std::int64_t sample) const {
    return first_input(split, sample) + options_.shift;
  }
  std::int64_t training_steps() const { return training_steps_; }  ///< the sequence's beginning, for statistics

 private:
  struct Part {
    std::int64_t steps = 0, first = 0, stride = 1, samples = 0;
  };
  const Part& of(Split split) const { return parts_[static_cast<std::size_t>(split)]; }

  WindowOptions options_;
  std::array<Part, 3> parts_;
  std::int64_t training_steps_ = 0;
};

/// Batches of a split's samples, epoch by epoch. Their order is a function of (seed, epoch) alone.
class WindowLoader {
 public:
  /// Throws Error(usage) where `batch` is below 1.
  WindowLoader(const Windows& windows, Split split, int batch, const OrderOptions& order = {});

  /// Begins an epoch at a batch.
  void start(std::uint32_t epoch, std::int64_t first_batch = 0);
  /// The samples of the next batch (the last one of an epoch may be smaller, and empty where all are other ranks'), or
  /// false at the end.
  bool next(std::vector<std::int64_t>& samples);
  std::int64_t batches() const { return (order_.all() + batch_ * ranks_ - 1) / (batch_ * ranks_); }  ///< of an epoch

 private:
  Order order_;
  std::int64_t batch_, ranks_, at_ = 0;
  std::vector<std::int64_t> samples_;
};

}  // namespace neurim
