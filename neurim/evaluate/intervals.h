// How sure a metric is, and whether two models differ.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "neurim/evaluate/exact_sum.h"

namespace neurim {

/// A range that holds the true value of a metric in 95 % of samples.
struct Interval {
  double low = 0,  ///< its lower end
      high = 0;    ///< its upper end
};

/// Wilson's score interval of a share of `part` in `whole` (Wilson, "Probable inference", JASA 22, 1927); [0, 1] of
/// nothing.
Interval wilson(std::int64_t part, std::int64_t whole);
/// The same of a share in [0, 1] of `samples` samples, which need not be whole.
Interval wilson(double share, double samples);

/// The intervals of metrics of counts, such as those of a confusion matrix: the 2.5 and 97.5 percentiles of each over
/// `rounds` draws of as many samples with replacement (Efron, "Bootstrap methods", Annals of Statistics 7, 1979). The
/// same counts give the same intervals. NaN where a metric is NaN.
std::vector<Interval> bootstrap(const std::vector<std::int64_t>& counts,
                                const std::function<std::vector<double>(const std::vector<std::int64_t>&)>& metrics,
                                int rounds = 1000);

/// A mean over samples, and its normal interval.
class SampleMean {
 public:
  void add(double value);                            ///< of one sample
  void merge(const SampleMean& other);               ///< adds everything that `other` has
  std::int64_t samples() const { return samples_; }  ///< that were added
  double mean() const;                               ///< NaN without samples
  double variance() const;                           ///< of the samples, by samples - 1; NaN of fewer than two
  Interval interval() const;                         ///< mean +- 1.96 standard errors; NaN of fewer than two

 private:
  ExactSum sum_, squares_;
  std::int64_t samples_ = 0;
};

/// The p-value of McNemar's test that two models err as often, of the samples that only the first and only the second
/// has right: exact by the binomial distribution (McNemar, Psychometrika 12, 1947). 1 where there are none.
double mcnemar(std::int64_t only_first, std::int64_t only_second);

}  // namespace neurim
