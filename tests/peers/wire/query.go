package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"sort"
	"strconv"
	"strings"

	"connectrpc.com/connect"
	querierv1 "github.com/grafana/pyroscope/api/gen/proto/go/querier/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/querier/v1/querierv1connect"
	typesv1 "github.com/grafana/pyroscope/api/gen/proto/go/types/v1"
)

const (
	cpu  = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
	span = "b7ad6b7169203331"
)

// Asks a service with Pyroscope's generated client, which Grafana's data source uses, for the time between two moments in
// milliseconds since 1970: each call once as protobuf and once as JSON. Prints a line for each.
func query(url, from, to string) {
	asker := asker{context: context.Background(), start: number(from), end: number(to)}
	asker.codec, asker.client = "proto", querierv1connect.NewQuerierServiceClient(http.DefaultClient, url)
	asker.all()
	asker.codec = "json"
	asker.client = querierv1connect.NewQuerierServiceClient(http.DefaultClient, url, connect.WithProtoJSON())
	asker.all()
}

func number(text string) int64 {
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(err)
	}
	return number
}

type asker struct {
	codec      string
	context    context.Context
	client     querierv1connect.QuerierServiceClient
	start, end int64
}

// Prints the answer of a call, or ends with its error.
func (a asker) say(call string, err error, answer func() string) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s %s: %v\n", a.codec, call, err)
		os.Exit(1)
	}
	say("%s %s %s", a.codec, call, answer())
}

func (a asker) all() {
	a.lists()
	a.profiles()
	a.courses()
	stats, err := a.client.GetProfileStats(a.context, connect.NewRequest(&typesv1.GetProfileStatsRequest{}))
	a.say("GetProfileStats", err, func() string {
		return fmt.Sprint(stats.Msg.DataIngested, stats.Msg.OldestProfileTime <= a.end, stats.Msg.NewestProfileTime >= a.start)
	})
}

func (a asker) lists() {
	types, err := a.client.ProfileTypes(a.context, connect.NewRequest(&querierv1.ProfileTypesRequest{Start: a.start, End: a.end}))
	a.say("ProfileTypes", err, func() string {
		ids := []string{}
		for _, kind := range types.Msg.ProfileTypes {
			ids = append(ids, kind.ID)
		}
		return strings.Join(ids, " ")
	})
	names, err := a.client.LabelNames(a.context, connect.NewRequest(&typesv1.LabelNamesRequest{Start: a.start, End: a.end}))
	a.say("LabelNames", err, func() string { return strings.Join(names.Msg.Names, " ") })
	values, err := a.client.LabelValues(a.context, connect.NewRequest(&typesv1.LabelValuesRequest{
		Name: "route", Matchers: []string{`{service_name="checkout"}`}, Start: a.start, End: a.end,
	}))
	a.say("LabelValues", err, func() string { return strings.Join(values.Msg.Names, " ") })
	series, err := a.client.Series(a.context, connect.NewRequest(&querierv1.SeriesRequest{
		LabelNames: []string{"service_name", "route"}, Start: a.start, End: a.end,
	}))
	a.say("Series", err, func() string {
		sets := []string{}
		for _, set := range series.Msg.LabelsSet {
			sets = append(sets, shown(set.Labels))
		}
		sort.Strings(sets)
		return strings.Join(sets, " ")
	})
}

func shown(labels []*typesv1.LabelPair) string {
	pairs := []string{}
	for _, label := range labels {
		pairs = append(pairs, label.Name+"="+label.Value)
	}
	sort.Strings(pairs)
	return "{" + strings.Join(pairs, ",") + "}"
}

func (a asker) stacktraces(selector string) *querierv1.SelectMergeStacktracesRequest {
	return &querierv1.SelectMergeStacktracesRequest{ProfileTypeID: cpu, LabelSelector: selector, Start: a.start, End: a.end}
}

func (a asker) profiles() {
	stacks, err := a.client.SelectMergeStacktraces(a.context, connect.NewRequest(a.stacktraces("{}")))
	a.say("SelectMergeStacktraces", err, func() string { return flame(stacks.Msg.Flamegraph) })
	spans, err := a.client.SelectMergeSpanProfile(a.context, connect.NewRequest(&querierv1.SelectMergeSpanProfileRequest{
		ProfileTypeID: cpu, LabelSelector: "{}", SpanSelector: []string{span}, Start: a.start, End: a.end,
	}))
	a.say("SelectMergeSpanProfile", err, func() string { return flame(spans.Msg.Flamegraph) })
	profile, err := a.client.SelectMergeProfile(a.context, connect.NewRequest(&querierv1.SelectMergeProfileRequest{
		ProfileTypeID: cpu, LabelSelector: `{route="/a"}`, Start: a.start, End: a.end,
	}))
	a.say("SelectMergeProfile", err, func() string {
		total := int64(0)
		for _, sample := range profile.Msg.Sample {
			total += sample.Value[len(sample.Value)-1]
		}
		return fmt.Sprint(total)
	})
	diff, err := a.client.Diff(a.context, connect.NewRequest(&querierv1.DiffRequest{
		Left: a.stacktraces(`{route="/a"}`), Right: a.stacktraces(`{route="/b"}`),
	}))
	a.say("Diff", err, func() string {
		graph := diff.Msg.Flamegraph
		return fmt.Sprint(graph.LeftTicks, graph.RightTicks, graph.Total)
	})
}

// Prints the total of a flame graph, and its names.
func flame(graph *querierv1.FlameGraph) string {
	names := append([]string{}, graph.Names...)
	sort.Strings(names)
	return fmt.Sprint(graph.Total, " ", strings.Join(names, " "))
}

func (a asker) courses() {
	step := float64(a.end-a.start) / 1000
	series, err := a.client.SelectSeries(a.context, connect.NewRequest(&querierv1.SelectSeriesRequest{
		ProfileTypeID: cpu, LabelSelector: "{}", Start: a.start, End: a.end, Step: step, GroupBy: []string{"route"},
	}))
	a.say("SelectSeries", err, func() string {
		lines := []string{}
		for _, series := range series.Msg.Series {
			sum := 0.0
			for _, point := range series.Points {
				sum += point.Value
			}
			lines = append(lines, fmt.Sprintf("%s=%.0f", shown(series.Labels), sum))
		}
		sort.Strings(lines)
		return strings.Join(lines, " ")
	})
	heat, err := a.client.SelectHeatmap(a.context, connect.NewRequest(&querierv1.SelectHeatmapRequest{
		ProfileTypeID: cpu, LabelSelector: "{}", Start: a.start, End: a.end, Step: step,
		QueryType: querierv1.HeatmapQueryType_HEATMAP_QUERY_TYPE_INDIVIDUAL,
	}))
	a.say("SelectHeatmap", err, func() string {
		windows := int64(0)
		for _, series := range heat.Msg.Series {
			for _, slot := range series.Slots {
				for _, count := range slot.Counts {
					windows += int64(count)
				}
			}
		}
		return fmt.Sprint(windows)
	})
}
