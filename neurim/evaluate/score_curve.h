// A class against the others by the scores of samples: its curves, and the areas below them.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "neurim/evaluate/intervals.h"

namespace neurim {

/// The score of a sample, and whether it is of the class.
struct Score {
  float score = 0;        ///< the higher, the more likely of the class
  bool positive = false;  ///< whether it is
};

/// What saying the class from this score on gives.
struct CurvePoint {
  double score = 0;                 ///< said from this score on; the first point of a curve says nothing, at infinity
  std::int64_t true_positives = 0,  ///< samples of the class of which it is said
      false_positives = 0;          ///< other samples of which it is said
};

/// The points at which the class is said of more samples, by falling scores; equal scores at once. No score is NaN.
/// `places` becomes the point of each sample.
std::vector<CurvePoint> score_curve(std::span<const Score> scores, std::vector<std::uint32_t>* places = nullptr);

/// The area under the curve of true over false positives; NaN where all samples have the class, or none.
double roc_auc(std::span<const CurvePoint> curve);
/// The sum over falling scores of (growth of recall) * precision; NaN where no sample has the class.
double average_precision(std::span<const CurvePoint> curve);

/// How a metric of a curve changes with the weight of a sample at each of its points: its derivative. The sum over all
/// samples is 0, that of squares the variance of the metric (Jaeckel, "The infinitesimal jackknife", 1972; of the area
/// also DeLong et al., Biometrics 44, 1988).
struct Influence {
  std::vector<double> positive,  ///< of a sample of the class
      negative;                  ///< of another one
};
Influence roc_auc_influence(std::span<const CurvePoint> curve);            ///< where roc_auc is a number
Influence average_precision_influence(std::span<const CurvePoint> curve);  ///< where average_precision is a number

/// A metric between 0 and 1 that is known as well as a share of some number of samples.
struct Estimate {
  double value = 0;   ///< NaN: it is none
  Interval interval;  ///< Wilson's of as many samples
};
/// `variance` is that of the metric; where it is 0, as with an area of 1, the metric is as well known as a share of
/// `least` samples.
Estimate estimate(double value, double variance, std::int64_t least);

/// The areas under the curves of each class against the others.
struct ClassAreas {
  int first = 0;                                   ///< the means are over the classes from this one
  std::vector<double> roc_auc, average_precision;  ///< of each class; NaN: it is none
  Estimate mean_roc_auc, mean_average_precision;   ///< over the classes that have one
};
/// `scores` gives those of all samples for a class.
ClassAreas class_areas(std::int64_t samples, int classes, int first,
                       const std::function<std::vector<Score>(int)>& scores);

}  // namespace neurim
