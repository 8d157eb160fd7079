// Scrapes a service and sends what it gets to Pyroscope, with the code of Grafana Alloy: the components pyroscope.scrape and
// pyroscope.write, with their default arguments. Built inside Alloy's module, whose packages are internal.
package main

import (
	"context"
	"os"

	"github.com/go-kit/log"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/grafana/alloy/internal/component"
	"github.com/grafana/alloy/internal/component/discovery"
	"github.com/grafana/alloy/internal/component/pyroscope"
	"github.com/grafana/alloy/internal/component/pyroscope/scrape"
	"github.com/grafana/alloy/internal/component/pyroscope/write"
	"github.com/grafana/alloy/internal/service/cluster"
)

func main() {
	target, service, store := os.Args[1], os.Args[2], os.Args[3]
	var receiver pyroscope.Appendable
	options := func(id string) component.Options {
		return component.Options{
			ID:         id,
			Logger:     log.NewLogfmtLogger(log.NewSyncWriter(os.Stderr)),
			Registerer: prometheus.NewRegistry(),
			OnStateChange: func(exports component.Exports) {
				if written, ok := exports.(write.Exports); ok {
					receiver = written.Receiver
				}
			},
			GetServiceData: func(string) (interface{}, error) { return cluster.Mock(), nil },
		}
	}
	endpoint := write.GetDefaultEndpointOptions()
	endpoint.URL = store
	_, err := write.New(options("pyroscope.write.store"), write.Arguments{Endpoints: []*write.EndpointOptions{&endpoint}})
	if err != nil {
		panic(err)
	}
	arguments := scrape.NewDefaultArguments()
	arguments.Targets = []discovery.Target{{"__address__": target, "service_name": service}}
	arguments.ForwardTo = []pyroscope.Appendable{receiver}
	scraper, err := scrape.New(options("pyroscope.scrape.services"), arguments)
	if err != nil {
		panic(err)
	}
	if err := scraper.Run(context.Background()); err != nil {
		panic(err)
	}
}
