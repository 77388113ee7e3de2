#include "neurim/train/robustness.h"

#include "neurim/evaluate/csv.h"

namespace neurim {

namespace {

struct Corruption {
  const char* kind;
  const char* changes[5];
};

constexpr Corruption kCorruptions[] = {
    {"noise", {"noise(10)", "noise(20)", "noise(30)", "noise(45)", "noise(60)"}},
    {"blur", {"blur(5,0.8,0.8)", "blur(9,1.5,1.5)", "blur(13,2.2,2.2)", "blur(19,3.2,3.2)", "blur(27,4.5,4.5)"}},
    {"jpeg", {"jpeg(60,60)", "jpeg(35,35)", "jpeg(20,20)", "jpeg(10,10)", "jpeg(5,5)"}},
    {"rotation", {"rotate(10)", "rotate(20)", "rotate(30)", "rotate(45)", "rotate(60)"}},
    {"darkness",
     {"brightness(0.8,0.8)", "brightness(0.6,0.6)", "brightness(0.45,0.45)", "brightness(0.3,0.3)",
      "brightness(0.2,0.2)"}},
};
constexpr int kSeverities = 5;

}  // namespace

std::vector<Corrupted> with_corruptions(const Model& model, const Dataset& dataset, Split split,
                                        const Preprocess& preprocess, const TrainOptions& options,
                                        const Validation::Watch& watch) {
  std::vector<Corrupted> out;
  const double all = std::size(kCorruptions) * kSeverities;
  for (const Corruption& corruption : kCorruptions)
    for (int severity = 1; severity <= kSeverities; ++severity) {
      const char* changed = corruption.changes[severity - 1];
      Validation validation(model, dataset, split, preprocess, options, DType::f32, parse_augment(changed));
      const auto done = static_cast<double>(out.size());
      const std::optional<Evaluation> evaluation = validation.run(
          [&](double share) { return !watch || watch((done + share) / all); });
      if (!evaluation) return out;
      out.push_back({.kind = corruption.kind,
                     .severity = severity,
                     .changed = changed,
                     .accuracy = evaluation->accuracy(),
                     .interval = evaluation->accuracy_interval()});
    }
  return out;
}

std::string corruptions_csv(const std::vector<Corrupted>& corrupted) {
  std::string out = "corruption,severity,changed,accuracy,low,high\n";
  for (const Corrupted& one : corrupted)
    out += text(one.kind, ',', one.severity, ',', csv_field(one.changed), ',', one.accuracy, ',', one.interval.low, ',',
                one.interval.high, '\n');
  return out;
}

}  // namespace neurim
