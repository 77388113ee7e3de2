#include "neurim/data/sequences/windows.h"

#include <algorithm>

#include "neurim/base/error.h"

namespace neurim {

Windows::Windows(std::int64_t steps, const WindowOptions& options, const std::string& path) : options_(options) {
  const auto& o = options;
  require(o.inputs >= 1 && o.targets >= 1 && o.stride >= 1, "windows: inputs, targets and stride are ", o.inputs, ", ",
          o.targets, " and ", o.stride, "; each is at least 1");
  require(o.shift >= 0, "windows: shift is ", o.shift, "; it is not negative");
  require(o.val_split >= 0 && o.test_split >= 0 && o.val_split + o.test_split < 1,
          "windows: val_split and test_split are ", o.val_split, " and ", o.test_split,
          "; together they lie in [0, 1)");
  const auto share = [&](double of) { return static_cast<std::int64_t>(of * static_cast<double>(steps)); };
  const std::int64_t val = share(o.val_split), test = share(o.test_split);
  training_steps_ = steps - val - test;

  // Targets of a split lie in [begin, end); an input before the sequence's beginning does not exist.
  const auto part = [&](std::int64_t begin, std::int64_t end, std::int64_t stride) {
    const std::int64_t target = std::max(begin, o.shift);
    // A sample whose inputs go on past its targets must end within the sequence.
    const std::int64_t last = std::min(end - o.targets, steps - o.inputs + o.shift);
    return Part{end - begin, target - o.shift, stride, last < target ? 0 : (last - target) / stride + 1};
  };
  parts_ = {part(0, training_steps_, o.stride), part(training_steps_, training_steps_ + val, o.targets),
            part(training_steps_ + val, steps, o.targets)};
  if (parts_[0].samples == 0)
    fail(Fault::data, path, ": training has ", training_steps_, " of the ", steps, " steps, and a sample takes ",
         std::max(o.inputs, o.shift + o.targets), "; shorten the windows or the other splits");
}

WindowLoader::WindowLoader(const Windows& windows, Split split, int batch, const OrderOptions& order)
    : order_(windows.size(split), order), batch_(batch), ranks_(order.ranks) {
  require(batch >= 1, "loader: batch is ", batch, "; it is at least 1");
}

void WindowLoader::start(std::uint32_t epoch, std::int64_t first_batch) {
  order_.fill(epoch, samples_);
  at_ = first_batch;
}

bool WindowLoader::next(std::vector<std::int64_t>& samples) {
  if (at_ == batches()) return false;
  const auto place = [&](std::int64_t batch) {
    return samples_.begin() + std::min<std::int64_t>(batch * batch_, std::ssize(samples_));
  };
  samples.assign(place(at_), place(at_ + 1));
  ++at_;
  return true;
}

}  // namespace neurim
