// The fields of a study's tables, stated once.
#pragma once
#include "results/record_fields.h"
#include "results/scaling.h"

namespace faibench {

template <class R, class F>
void visit_scaling_row_fields(R& r, F&& f) {
  f(FieldFact{"task", "", "name of the task"}, r.task);
  f(FieldFact{"variant", "", "implementation; library: calls of the MPI library alone"}, r.variant);
  f(FieldFact{"cadence", "", "isolated: a common start instant a call; streaming: calls back to back. Never compare the two"}, r.cadence);
  f(FieldFact{"ranks", "1", "ranks of the group"}, r.ranks);
  f(FieldFact{"bytes", "B", "S, the size that bandwidth is counted from"}, r.bytes);
  f(FieldFact{"verdict", "", "passed, wrong, skipped, or late: right, but no sample counts"}, r.verdict);
  f(FieldFact{"detail", "", "why not passed"}, r.detail);
  f(FieldFact{"samples", "1", "samples that count"}, r.samples);
  f(FieldFact{"invalid", "1", "samples left out because a rank missed the start instant or lost its core meanwhile"}, r.invalid);
  f(FieldFact{"stop_reason", "", "precision, time or samples"}, r.stop_reason);
  f(FieldFact{"seconds", "s", "median time of one call: latest exit - earliest enter; of several visits the median of theirs"}, r.seconds);
  f(FieldFact{"low", "s", "lower end of the median's 95% interval"}, r.low);
  f(FieldFact{"high", "s", "upper end of the median's 95% interval"}, r.high);
  f(FieldFact{"p90", "s", "90th percentile"}, r.p90);
  f(FieldFact{"p99", "s", "99th percentile; 0 below 100 samples"}, r.p99);
  f(FieldFact{"least", "s", "fastest sample"}, r.least);
  f(FieldFact{"most", "s", "slowest sample"}, r.most);
  f(FieldFact{"dispersion", "1", "1.4826 times the median absolute deviation, over the median"}, r.dispersion);
  f(FieldFact{"arrival_skew", "s", "median of latest enter - earliest enter"}, r.arrival_skew);
  f(FieldFact{"exit_skew", "s", "median of latest exit - earliest exit"}, r.exit_skew);
  f(FieldFact{"transfer", "s", "median of latest exit - latest enter"}, r.transfer);
  f(FieldFact{"algbw", "B/s", "bytes / seconds; 0 on one rank, where nothing is sent"}, r.algbw);
  f(FieldFact{"busbw", "B/s", "algbw times the factor of bus_formula; 0 on one rank"}, r.busbw);
  f(FieldFact{"bus_formula", "", "factor of busbw, good for point-to-point algorithms on equal links"}, r.bus_formula);
  f(FieldFact{"element", "", "dtype of the largest input"}, r.element);
  f(FieldFact{"wire_node", "B", "sent within a node by the busiest rank, by the schedule of the task's own variant"}, r.wire_node);
  f(FieldFact{"wire_network", "B", "sent between nodes by the busiest rank, by the schedule of the task's own variant"}, r.wire_network);
  f(FieldFact{"sent_node", "B", "sent within a node by the busiest rank in one call, as the executor counted; 0 where it did not run"}, r.sent_node);
  f(FieldFact{"sent_network", "B", "sent between nodes by the busiest rank in one call, as the executor counted; 0 where it did not run"}, r.sent_network);
  f(FieldFact{"calls", "1", "calls of a sample, back to back"}, r.calls);
  f(FieldFact{"visits", "1", "how often the cell was come back to; low and high are the outermost of the visits' intervals"}, r.visits);
  f(FieldFact{"visit_spread", "1", "slowest over fastest median of the visits"}, r.visit_spread);
  f(FieldFact{"bound_seconds", "s", "least time of any algorithm over the measured message link"}, r.bound_seconds);
  f(FieldFact{"bound_ratio", "1", "seconds / bound_seconds; below 1 where data goes through shared memory and not messages"}, r.bound_ratio);
  f(FieldFact{"strong_efficiency", "1", "t1 / (P tP) at equal bytes; 0 unless measured on one rank"}, r.strong_efficiency);
  f(FieldFact{"weak_efficiency", "1", "t1 / tP at equal bytes; 0 unless measured on one rank"}, r.weak_efficiency);
  f(FieldFact{"oversubscribed", "1", "more ranks than cores: times are those of the scheduler's turns"}, r.oversubscribed);
  f(FieldFact{"flags", "", "bimodal, drifting, outliers, bursts, mostly_late, lost_turns (ranks lost their cores in that share of the samples, and they count all the same), below_clock_error, super_linear"}, r.flags);
  f(FieldFact{"clock_error", "s", "bound of the clocks' error; 0 is one clock"}, r.clock_error);
  f(FieldFact{"key", "", "what resuming compares"}, r.key);
}

template <class R, class F>
void visit_scaling_fit_fields(R& r, F&& f) {
  f(FieldFact{"task", "", "name of the task"}, r.task);
  f(FieldFact{"variant", "", "implementation"}, r.variant);
  f(FieldFact{"cadence", "", "isolated or streaming"}, r.cadence);
  f(FieldFact{"ranks", "1", "ranks of the group"}, r.ranks);
  f(FieldFact{"piece", "1", "from 0, ascending in bytes"}, r.piece);
  f(FieldFact{"from_bytes", "B", "smallest size of the piece"}, r.from_bytes);
  f(FieldFact{"to_bytes", "B", "largest size of the piece"}, r.to_bytes);
  f(FieldFact{"alpha", "s", "seconds = alpha + beta * bytes within the piece, least relative squares on medians; pieces meet"}, r.alpha);
  f(FieldFact{"beta", "s/B", "seconds of a byte"}, r.beta);
  f(FieldFact{"max_residual", "1", "largest relative residual of all pieces"}, r.max_residual);
  f(FieldFact{"held_out_bytes", "B", "a size in the middle, left out"}, r.held_out_bytes);
  f(FieldFact{"held_out_seconds", "s", "its measured median"}, r.held_out_seconds);
  f(FieldFact{"held_out_forecast", "s", "what a fit of all other sizes says of it"}, r.held_out_forecast);
  f(FieldFact{"held_out_error", "1", "forecast / measured - 1"}, r.held_out_error);
  f(FieldFact{"median_residual", "1", "median relative residual of all pieces"}, r.median_residual);
  f(FieldFact{"plain_alpha", "s", "of one line through all sizes"}, r.plain_alpha);
  f(FieldFact{"plain_beta", "s/B", "of one line through all sizes"}, r.plain_beta);
  f(FieldFact{"plain_max_residual", "1", "largest relative residual of one line through all sizes"}, r.plain_max_residual);
}

template <class R, class F>
void visit_scaling_forecast_fields(R& r, F&& f) {
  f(FieldFact{"task", "", "name of the task"}, r.task);
  f(FieldFact{"variant", "", "implementation"}, r.variant);
  f(FieldFact{"cadence", "", "isolated or streaming"}, r.cadence);
  f(FieldFact{"ranks", "1", "ranks of the group"}, r.ranks);
  f(FieldFact{"bytes", "B", "the size that was left out"}, r.bytes);
  f(FieldFact{"seconds", "s", "its measured median"}, r.seconds);
  f(FieldFact{"forecast", "s", "what a fit of all other sizes says of it"}, r.forecast);
  f(FieldFact{"error", "1", "forecast / measured - 1"}, r.error);
  f(FieldFact{"beyond", "1", "the largest size: extrapolated"}, r.beyond);
  f(FieldFact{"named", "1", "the one in the middle that /scaling/fits repeats"}, r.named);
}

template <class R, class F>
void visit_scaling_link_fields(R& r, F&& f) {
  f(FieldFact{"ranks", "1", "ranks of the group"}, r.ranks);
  f(FieldFact{"level", "", "node: between ranks of a node; network: between nodes"}, r.level);
  f(FieldFact{"nodes", "1", "nodes that the group spans"}, r.nodes);
  f(FieldFact{"alpha", "s", "one way of 8 bytes from rank 0 to the nearest rank at this level, the fastest of 60 round trips"}, r.alpha);
  f(FieldFact{"beta", "s/B", "what each byte more costs, up to 1 MiB"}, r.beta);
  f(FieldFact{"clock_error", "s", "bound of the error of the group's clocks against rank 0's; 0 is one clock"}, r.clock_error);
}

template <class R, class F>
void visit_scaling_finding_fields(R& r, F&& f) {
  f(FieldFact{"task", "", "name of the task"}, r.task);
  f(FieldFact{"rule", "", "guideline that does not hold: beyond the tolerance, and the intervals of both medians lie apart"}, r.rule);
  f(FieldFact{"detail", "", "where, and by how much"}, r.detail);
  f(FieldFact{"variant", "", "who is slower"}, r.variant);
  f(FieldFact{"cadence", "", "isolated or streaming"}, r.cadence);
  f(FieldFact{"other", "", "than what: a variant, a size or a number of ranks"}, r.other);
  f(FieldFact{"ranks", "1", "ranks of the group"}, r.ranks);
  f(FieldFact{"bytes", "B", "size"}, r.bytes);
  f(FieldFact{"seconds", "s", "median of the slower one"}, r.seconds);
  f(FieldFact{"other_seconds", "s", "median of the other one"}, r.other_seconds);
  f(FieldFact{"cells", "1", "cells of this variant, cadence and number of ranks at which the guideline could be tested"}, r.cells);
}

}  // namespace faibench
