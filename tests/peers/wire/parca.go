package main

import (
	"context"
	"fmt"
	"os"

	querypb "github.com/parca-dev/parca/gen/proto/go/parca/query/v1alpha1"
	scrapepb "github.com/parca-dev/parca/gen/proto/go/parca/scrape/v1alpha1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Connects to Parca, or ends.
func parca(address string) *grpc.ClientConn {
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	end(err)
	return connection
}

func end(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Asks Parca with its generated client for all profiles of a type between two moments in milliseconds since 1970, added up.
// Writes the pprof file to standard output.
func parcaQuery(address, query, from, to string) {
	start, stop := number(from), number(to)
	answer, err := querypb.NewQueryServiceClient(parca(address)).Query(context.Background(), &querypb.QueryRequest{
		Mode:       querypb.QueryRequest_MODE_MERGE,
		ReportType: querypb.QueryRequest_REPORT_TYPE_PPROF,
		Options: &querypb.QueryRequest_Merge{Merge: &querypb.MergeProfile{
			Query: query,
			Start: &timestamppb.Timestamp{Seconds: start / 1000, Nanos: int32(start%1000) * 1e6},
			End:   &timestamppb.Timestamp{Seconds: stop / 1000, Nanos: int32(stop%1000) * 1e6},
		}},
	})
	end(err)
	_, err = os.Stdout.Write(answer.GetPprof())
	end(err)
}

// Prints what Parca scrapes: the health, the address and the last error of each.
func parcaTargets(address string) {
	answer, err := scrapepb.NewScrapeServiceClient(parca(address)).Targets(context.Background(), &scrapepb.TargetsRequest{})
	end(err)
	for _, targets := range answer.Targets {
		for _, target := range targets.Targets {
			say("%s %s %s", target.Health, target.Url, target.LastError)
		}
	}
}
