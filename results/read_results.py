#!/usr/bin/python3
"""Reads run files of faibench (faibench-run/1, see FORMAT.md) with h5py and pandas.

    import read_results
    table = read_results.records("RUN.h5")              # a DataFrame, one row a verdict
    blocks = read_results.samples("RUN.h5", "coalesced_matrix_transpose", "cpu")
    facts = read_results.provenance("RUN.h5")           # a dict
    read_results.plot_speedups("RUN.h5", "speedups.png")
    rows = read_results.scaling("SCALE.h5")             # a study over sizes and ranks, one row a cell; of several files: one study
    read_results.plot_scaling("SCALE.h5", "tp_allreduce_bias_fuse", "scaling.png")

From a shell: read_results.py RUN.h5... [--plot PNG | --samples TASK VARIANT | --scaling | --plot-scaling TASK PNG | --provenance | --csv]
"""
import argparse
import json
import sys

import h5py
import pandas as pd

FORMAT = "faibench-run/1"


def _open(path):
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise OSError(f"{path}: {error}") from error  # h5py names no file that it can open and not read
    found = file.attrs.get("format", "none")
    if found != FORMAT:
        file.close()
        raise ValueError(f"{path}: format is '{found}', this reader knows '{FORMAT}'")
    return file


def _table(dataset):
    """A table as a DataFrame with texts decoded; units and descriptions in its attrs."""
    rows = dataset[()]
    frame = pd.DataFrame({name: rows[name] for name in rows.dtype.names})
    for name in rows.dtype.names:
        if h5py.check_string_dtype(dataset.dtype[name]):
            frame[name] = [text.decode("utf-8", "replace") if isinstance(text, bytes) else text for text in rows[name]]
    frame.attrs["units"] = dict(zip(dataset.attrs["field_names"], dataset.attrs["field_units"]))
    frame.attrs["descriptions"] = dict(zip(dataset.attrs["field_names"], dataset.attrs["field_descriptions"]))
    return frame


def records(path):
    """All verdicts of a run, one row each."""
    with _open(path) as file:
        return _table(file["records"])


def samples(path, task, variant, workload=None):
    """Raw timings of one task and variant, one row a block and rank; of several workloads, the one named or else the first."""
    with _open(path) as file:
        table = _table(file["records"])
        found = table[(table.task == task) & (table.variant == variant) & (table.samples != "")]
        if workload is not None:
            found = found[found.workload == workload]
        if found.empty:
            raise KeyError(f"{path}: no timings of task '{task}', variant '{variant}'" + (f", workload '{workload}'" if workload else ""))
        return _table(file[found.iloc[0].samples])


def scaling(path, table="rows"):
    """A study of faibench scale: its rows (one a task, variant, size, number of ranks and cadence), or "fits", "findings", "links".

    A list of files, as the elements of a job array leave them, is one study: efficiencies are those over all files, and a row that is in several files is the first one's.
    """
    if isinstance(path, (list, tuple)):
        parts = [scaling(one, table) for one in path]
        whole = pd.concat(parts, ignore_index=True)
        whole.attrs = parts[0].attrs
        return _with_efficiencies(whole.drop_duplicates("key", ignore_index=True)) if table == "rows" and len(parts) > 1 else whole
    with _open(path) as file:
        if "rows" not in file["scaling"]:
            raise KeyError(f"{path}: has no scaling study")
        return _table(file["scaling"][table])


def _with_efficiencies(rows):
    """Rows with t1 / tP and t1 / (P tP) where one rank was timed at equal task, variant, cadence and bytes."""
    cell = ["task", "variant", "cadence", "bytes"]
    timed = rows[(rows.verdict == "passed") & (rows.seconds > 0)]
    one = timed[timed.ranks == 1].drop_duplicates(cell).set_index(cell).seconds
    alone = one.reindex(pd.MultiIndex.from_frame(timed[cell])).to_numpy()
    rows.loc[timed.index, "weak_efficiency"] = pd.Series(alone / timed.seconds, timed.index).fillna(0)
    rows.loc[timed.index, "strong_efficiency"] = pd.Series(alone / timed.seconds / timed.ranks, timed.index).fillna(0)
    return rows


def provenance(path):
    """Where the figures come from: build, job, hosts with their measured peaks."""
    with _open(path) as file:
        return json.loads(file["provenance/json"].asstr()[()])


def plot_speedups(path, png):
    """One bar a passed performance task with the 95% interval; a mark at the anchor, where the score begins."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    table = records(path)
    timed = table[(table.verdict == "passed") & (table.speedup > 0)].sort_values("speedup")
    hosts = provenance(path)["hosts"]
    figure, axes = plt.subplots(figsize=(9, 1.6 + 0.35 * max(len(timed), 1)), layout="constrained")
    labels = [f"{row.task}  {row.variant}" for row in timed.itertuples()]
    places = range(len(timed))
    errors = [(timed.speedup - timed.speedup_low).clip(lower=0), (timed.speedup_high - timed.speedup).clip(lower=0)]
    axes.barh(places, timed.speedup - 1, left=1, color="#4878a8", height=0.6, label="speedup, 95% interval")
    axes.errorbar(timed.speedup, places, xerr=errors, fmt="none", ecolor="black", capsize=3, linewidth=1)
    anchored = timed.ref_speedup > 0
    axes.scatter(timed.ref_speedup[anchored], [p for p, a in zip(places, anchored) if a], marker="|", s=220, color="#c44e52", linewidth=2.5, zorder=3, label="anchor (score 0)")
    axes.set_yticks(places, labels)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(matplotlib.ticker.LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(matplotlib.ticker.FuncFormatter(lambda x, _: f"{x:g}x"))
    axes.xaxis.set_minor_formatter(matplotlib.ticker.NullFormatter())
    axes.axvline(1, color="gray", linewidth=0.8)
    axes.set_xlabel("speedup over the baseline")
    axes.grid(axis="x", which="both", alpha=0.25)
    left_out = len(table) - len(timed)
    where = (hosts[0]["cpu_model"] if hosts else "") or "an unknown machine"
    axes.set_title(f"{len(timed)} timed of {len(table)} verdicts on {where}" + (f" ({left_out} failed, not run or without a speed)" if left_out else ""), fontsize=10)
    if len(timed):
        axes.legend(loc="lower right", fontsize=8)
    figure.savefig(png, dpi=130)
    plt.close(figure)


def _bytes_text(value):
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{value:g} {unit}"
        value /= 1024


def _size_axis(axes):
    import matplotlib

    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(matplotlib.ticker.LogLocator(base=16, numticks=12))
    axes.xaxis.set_major_formatter(matplotlib.ticker.FuncFormatter(lambda x, _: _bytes_text(x)))
    axes.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())


# Told apart without colour vision too (Okabe and Ito 2008), and by their markers in print.
_COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999933"]
_MARKERS = ["o", "s", "^", "D", "v", "P", "X", "<"]


def plot_scaling(path, task, png, cadence="isolated"):
    """Of one task: time and bus bandwidth over size, a row for each number of ranks from 2 on, and weak efficiency over ranks at the smallest and largest size. The two cadences are never mixed."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    table = scaling(path)
    rows = table[(table.task == task) & (table.cadence == cadence) & (table.verdict == "passed")]
    if rows.empty:
        raise KeyError(f"{path}: no timed rows of task '{task}', cadence '{cadence}'")
    variants, ranks = sorted(rows.variant.unique(), key=lambda v: (v.startswith("library:"), v)), sorted(rows.ranks.unique())
    look = {v: {"color": _COLOURS[i % 8], "marker": _MARKERS[i % 8], "linestyle": "--" if v.startswith("library:") else "-", "linewidth": 1.3, "markersize": 4.5} for i, v in enumerate(variants)}
    shown = [n for n in ranks if n > 1] or ranks
    figure, grid = plt.subplots(len(shown) + 1, 2, figsize=(14.5, 3.5 * (len(shown) + 1)), squeeze=False)
    for (time, bandwidth), n in zip(grid, shown):
        group = rows[rows.ranks == n].sort_values("bytes")
        has_bandwidth = (group.busbw > 0).any()  # none on one rank, where nothing is sent
        for variant, curve in group.groupby("variant"):
            time.plot(curve.bytes, 1e6 * curve.seconds, **look[variant])
            time.fill_between(curve.bytes, 1e6 * curve.low, 1e6 * curve.high, color=look[variant]["color"], alpha=0.18, linewidth=0)
            if has_bandwidth:
                bandwidth.plot(curve.bytes, curve.busbw / 1e9, **look[variant])
                factor = curve.busbw * curve.seconds / 1e9
                bandwidth.fill_between(curve.bytes, factor / curve.high, factor / curve.low, color=look[variant]["color"], alpha=0.18, linewidth=0)
        bounded = group[group.bound_seconds > 0].drop_duplicates("bytes")
        if has_bandwidth and not bounded.empty:
            time.plot(bounded.bytes, 1e6 * bounded.bound_seconds, color="gray", linestyle=":", linewidth=1.8)
            bandwidth.plot(bounded.bytes, bounded.busbw * bounded.bound_ratio / 1e9, color="gray", linestyle=":", linewidth=1.8)
        crowded = "\nOVERSUBSCRIBED (more ranks than cores)" if group.oversubscribed.any() else ""
        for axes, label, title in ((time, "median time [\u00b5s]", "Time of the slowest rank"), (bandwidth, "bus bandwidth [GB/s]", f"Bus bandwidth, factor {rows.bus_formula.iloc[0]}")):
            if axes is bandwidth and not has_bandwidth:
                axes.set_axis_off()
                continue
            _size_axis(axes)
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(matplotlib.ticker.FuncFormatter(lambda y, _: f"{y:g}"))
            axes.set_xlabel("size S")
            axes.set_ylabel(label)
            axes.set_title(f"{title}, {n} rank{'s' if n > 1 else ''}{crowded}", fontsize=10)

    # The largest size that every number of ranks has, and the smallest: the two ends of the study.
    common = set.intersection(*(set(rows[rows.ranks == n].bytes) for n in ranks))
    ends = sorted({min(common), max(common)}) if common else []
    for axes, size in zip(grid[-1], ends + [None] * (2 - len(ends))):
        if size is None or rows[(rows.bytes == size) & (rows.weak_efficiency > 0)].empty:
            axes.set_axis_off()
            continue
        for variant, curve in rows[(rows.bytes == size) & (rows.weak_efficiency > 0)].sort_values("ranks").groupby("variant"):
            axes.plot(curve.ranks, curve.weak_efficiency, **look[variant])
        axes.axhline(1, color="gray", linewidth=0.8)
        axes.set_xscale("log", base=2)
        axes.set_xticks(ranks, [f"{n}*" if rows[rows.ranks == n].oversubscribed.any() else str(n) for n in ranks])
        axes.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(matplotlib.ticker.FuncFormatter(lambda y, _: f"{y:g}"))
        axes.set_xlabel("ranks" + (" (*: more than cores)" if rows.oversubscribed.any() else ""))
        axes.set_ylabel("t(1) / t(P) at equal S")
        axes.set_title(f"Weak efficiency, {_bytes_text(size)}", fontsize=10)
    for axes in grid.flat:
        axes.grid(which="major", alpha=0.3)
    line = matplotlib.lines.Line2D
    handles = [line([], [], label=v, **look[v]) for v in variants] + [line([], [], color="gray", linestyle=":", linewidth=1.8, label="lower bound over messages")]
    handles.append(matplotlib.patches.Patch(color="gray", alpha=0.3, label="95% interval"))
    hosts = provenance(path[0] if isinstance(path, (list, tuple)) else path)["hosts"]
    where = (hosts[0]["cpu_model"] if hosts else "") or "an unknown machine"
    figure.suptitle(f"{task}, {cadence} calls, on {where}", fontsize=12)
    figure.legend(handles=handles, loc="upper left", bbox_to_anchor=(0.805, 0.95), fontsize=9, frameon=False)
    figure.tight_layout(rect=(0, 0, 0.8, 0.99))
    figure.savefig(png, dpi=130)
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description="Shows a run file of faibench.", epilog="Exit code: 0, or 2 for a file that cannot be read.")
    parser.add_argument("run", nargs="+", help="RUN.h5; several files of faibench scale are one study")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--plot", metavar="PNG", help="write a plot of the speedups")
    what.add_argument("--samples", nargs=2, metavar=("TASK", "VARIANT"), help="print the raw timings")
    what.add_argument("--scaling", action="store_true", help="print the rows of a scaling study")
    what.add_argument("--plot-scaling", nargs=2, metavar=("TASK", "PNG"), help="write a plot of a scaling study: time and bandwidth over size, efficiency over ranks")
    what.add_argument("--provenance", action="store_true", help="print where the figures come from")
    what.add_argument("--csv", action="store_true", help="print all verdicts as CSV")
    options = parser.parse_args()
    studies = options.scaling or options.plot_scaling
    if len(options.run) > 1 and not studies:
        parser.error("only --scaling and --plot-scaling take several files")
    if not studies or len(options.run) == 1:
        options.run = options.run[0]
    try:
        if options.plot:
            plot_speedups(options.run, options.plot)
        elif options.samples:
            print(samples(options.run, *options.samples).to_string())
        elif options.scaling:
            columns = ["task", "variant", "cadence", "ranks", "bytes", "verdict", "seconds", "low", "high", "algbw", "busbw", "bound_ratio", "weak_efficiency", "oversubscribed"]
            print(scaling(options.run)[columns].to_string(index=False))
        elif options.plot_scaling:
            plot_scaling(options.run, *options.plot_scaling)
        elif options.provenance:
            print(json.dumps(provenance(options.run), indent=2, ensure_ascii=False))
        elif options.csv:
            records(options.run).to_csv(sys.stdout, index=False)
        else:
            columns = ["task", "variant", "workload", "verdict", "reason", "score", "speedup", "speedup_low", "speedup_high", "seconds"]
            table = records(options.run)
            if "emulated" in table and table.emulated.any():  # not in files of the first days
                columns.insert(3, "emulated")
            print(table[columns].to_string(index=False))
    except (OSError, KeyError, ValueError) as error:
        print(f"read_results: {error.args[0] if isinstance(error, KeyError) else error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
