// Images read as sequences, row after row, by one layer of an LSTM (Hochreiter & Schmidhuber, "Long short-term memory",
// 1997), a GRU (Cho et al., "Learning phrase representations using RNN encoder-decoder", EMNLP'14) or a simple RNN
// (Elman, "Finding structure in time", 1990), whose last output is classified.
#include "neurim/model/zoo/entry.h"
#include "neurim/nn/linear.h"
#include "neurim/nn/recurrent.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/slice.h"
#include "neurim/ops/transpose.h"

namespace neurim::zoo {

namespace {

constexpr std::int64_t kSide = 28, kHidden = 128;

/// For images 28 wide.
template <class Cell>
struct RowClassifier {
  explicit RowClassifier(const Options& o)
      : rnn(o.in_chans * kSide, kHidden, {.batch_first = true}), fc(kHidden, o.classes) {}

  void parts(Parts& p) { p("rnn", rnn)("fc", fc); }
  /// x(N,C,H,28): H steps of a row of all channels.
  Tensor operator()(const Tensor& x) const {
    const Dim n = x.size(0), channels = x.size(1), height = x.size(2), width = x.size(3);
    const Tensor rows = reshape(transpose(x, {0, 2, 1, 3}), {n, height, channels * width});
    return fc(reshape(slice(rnn(rows).y, {height - 1}, {height}, {1}), {n, kHidden}));
  }

  Cell rnn;
  nn::Linear fc;
};

template <class Cell>
Entry row_classifier(const std::string& name) {
  return {.name = name,
          .build = [](const Options& o) { return RowClassifier<Cell>(o); },
          .image_size = kSide,
          .classes = 10,
          .mean = {0.1307},
          .std = {0.3081}};
}

}  // namespace

Entries recurrent_classifier_models() {
  return {row_classifier<nn::RNN>("rnn_classifier"), row_classifier<nn::LSTM>("lstm_classifier"),
          row_classifier<nn::GRU>("gru_classifier")};
}

}  // namespace neurim::zoo
