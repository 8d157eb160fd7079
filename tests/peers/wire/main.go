// Receives what flamelet sends with the code of the receivers' own protocols: Pyroscope's generated Connect handlers,
// Parca's generated gRPC services behind the gRPC-Web wrapper that Parca uses, and the OpenTelemetry collector's decoder.
// Prints its address, and then a line for each call. With `query URL FROM TO` it asks a service instead,
// with `parca-query` and `parca-targets` Parca.
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sort"
	"strings"

	"connectrpc.com/connect"
	"github.com/google/pprof/profile"
	debuginfov1 "github.com/grafana/pyroscope/api/gen/proto/go/debuginfo/v1alpha1"
	"github.com/grafana/pyroscope/api/gen/proto/go/debuginfo/v1alpha1/debuginfov1alpha1connect"
	pushv1 "github.com/grafana/pyroscope/api/gen/proto/go/push/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/push/v1/pushv1connect"
	"github.com/improbable-eng/grpc-web/go/grpcweb"
	debuginfopb "github.com/parca-dev/parca/gen/proto/go/parca/debuginfo/v1alpha1"
	storepb "github.com/parca-dev/parca/gen/proto/go/parca/profilestore/v1alpha1"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/pdata/pprofile/pprofileotlp"
	"google.golang.org/grpc"
)

func main() {
	if len(os.Args) == 5 && os.Args[1] == "query" {
		query(os.Args[2], os.Args[3], os.Args[4])
		return
	}
	if len(os.Args) == 6 && os.Args[1] == "parca-query" {
		parcaQuery(os.Args[2], os.Args[3], os.Args[4], os.Args[5])
		return
	}
	if len(os.Args) == 3 && os.Args[1] == "parca-targets" {
		parcaTargets(os.Args[2])
		return
	}
	server := grpc.NewServer()
	storepb.RegisterProfileStoreServiceServer(server, parcaStore{})
	debuginfopb.RegisterDebuginfoServiceServer(server, &parcaSymbols{})
	web := grpcweb.WrapServer(server, grpcweb.WithAllowNonRootResource(true))
	mux := http.NewServeMux()
	mux.Handle(pushv1connect.NewPusherServiceHandler(pyroscope{}))
	mux.Handle(debuginfov1alpha1connect.NewDebuginfoServiceHandler(pyroscopeSymbols{}))
	mux.HandleFunc("POST /debuginfo.v1alpha1.DebuginfoService/Upload/{id}", func(w http.ResponseWriter, r *http.Request) {
		count, err := io.Copy(io.Discard, r.Body)
		say("pyroscope-upload %s %d %v", r.PathValue("id"), count, err)
	})
	mux.HandleFunc("POST /v1development/profiles", otlp)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	say("%s", listener.Addr())
	panic(http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			web.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})))
}

func say(format string, values ...any) {
	fmt.Fprintf(os.Stdout, format+"\n", values...)
}

// Prints a profile: its labels, the total of its last value, and its time.
func sayProfile(kind string, labels []string, raw []byte) error {
	parsed, err := profile.ParseData(raw)
	if err != nil {
		return err
	}
	sort.Strings(labels)
	total := int64(0)
	for _, sample := range parsed.Sample {
		total += sample.Value[len(sample.Value)-1]
	}
	say("%s {%s} %d %d", kind, strings.Join(labels, ","), total, parsed.TimeNanos)
	return nil
}

type pyroscope struct{}

func (pyroscope) Push(_ context.Context, request *connect.Request[pushv1.PushRequest]) (*connect.Response[pushv1.PushResponse], error) {
	for _, series := range request.Msg.Series {
		labels := []string{}
		for _, label := range series.Labels {
			labels = append(labels, label.Name+"="+label.Value)
		}
		for _, sample := range series.Samples {
			if len(sample.ID) != 36 {
				return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("id %q", sample.ID))
			}
			if err := sayProfile("pyroscope", labels, sample.RawProfile); err != nil {
				return nil, connect.NewError(connect.CodeInvalidArgument, err)
			}
		}
	}
	return connect.NewResponse(&pushv1.PushResponse{}), nil
}

type pyroscopeSymbols struct {
	debuginfov1alpha1connect.UnimplementedDebuginfoServiceHandler
}

func (pyroscopeSymbols) ShouldInitiateUpload(_ context.Context, request *connect.Request[debuginfov1.ShouldInitiateUploadRequest]) (*connect.Response[debuginfov1.ShouldInitiateUploadResponse], error) {
	file := request.Msg.File
	say("pyroscope-should %s %s %s", file.GnuBuildId, file.Name, file.Type)
	return connect.NewResponse(&debuginfov1.ShouldInitiateUploadResponse{ShouldInitiateUpload: true}), nil
}

func (pyroscopeSymbols) UploadFinished(_ context.Context, request *connect.Request[debuginfov1.UploadFinishedRequest]) (*connect.Response[debuginfov1.UploadFinishedResponse], error) {
	say("pyroscope-finished %s", request.Msg.GnuBuildId)
	return connect.NewResponse(&debuginfov1.UploadFinishedResponse{}), nil
}

type parcaStore struct {
	storepb.UnimplementedProfileStoreServiceServer
}

func (parcaStore) WriteRaw(_ context.Context, request *storepb.WriteRawRequest) (*storepb.WriteRawResponse, error) {
	for _, series := range request.Series {
		labels := []string{}
		for _, label := range series.Labels.Labels {
			labels = append(labels, label.Name+"="+label.Value)
		}
		for _, sample := range series.Samples {
			if err := sayProfile("parca", labels, sample.RawProfile); err != nil {
				return nil, err
			}
		}
	}
	return &storepb.WriteRawResponse{}, nil
}

type parcaSymbols struct {
	debuginfopb.UnimplementedDebuginfoServiceServer
	uploaded bool
}

func (s *parcaSymbols) ShouldInitiateUpload(_ context.Context, request *debuginfopb.ShouldInitiateUploadRequest) (*debuginfopb.ShouldInitiateUploadResponse, error) {
	say("parca-should %s %s", request.BuildId, request.Type)
	return &debuginfopb.ShouldInitiateUploadResponse{ShouldInitiateUpload: !s.uploaded, Reason: "it is there already"}, nil
}

func (*parcaSymbols) InitiateUpload(_ context.Context, request *debuginfopb.InitiateUploadRequest) (*debuginfopb.InitiateUploadResponse, error) {
	say("parca-initiate %s %d", request.BuildId, request.Size)
	return &debuginfopb.InitiateUploadResponse{UploadInstructions: &debuginfopb.UploadInstructions{
		BuildId: request.BuildId, UploadId: "one", UploadStrategy: debuginfopb.UploadInstructions_UPLOAD_STRATEGY_GRPC,
	}}, nil
}

func (*parcaSymbols) Upload(stream debuginfopb.DebuginfoService_UploadServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	info, size := first.GetInfo(), 0
	for {
		request, err := stream.Recv()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		size += len(request.GetChunkData())
	}
	say("parca-upload %s %s %d", info.BuildId, info.UploadId, size)
	return stream.SendAndClose(&debuginfopb.UploadResponse{BuildId: info.BuildId, Size: uint64(size)})
}

func (s *parcaSymbols) MarkUploadFinished(_ context.Context, request *debuginfopb.MarkUploadFinishedRequest) (*debuginfopb.MarkUploadFinishedResponse, error) {
	say("parca-finished %s %s", request.BuildId, request.UploadId)
	s.uploaded = true
	return &debuginfopb.MarkUploadFinishedResponse{}, nil
}

func otlp(w http.ResponseWriter, r *http.Request) {
	unpacked, err := gzip.NewReader(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var body bytes.Buffer
	_, err = body.ReadFrom(unpacked)
	request := pprofileotlp.NewExportRequest()
	if err == nil {
		err = request.UnmarshalProto(body.Bytes())
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	profiles := request.Profiles()
	for _, resource := range profiles.ResourceProfiles().All() {
		service, _ := resource.Resource().Attributes().Get("service.name")
		for _, scope := range resource.ScopeProfiles().All() {
			for _, one := range scope.Profiles().All() {
				id := one.ProfileID()
				kind := profiles.Dictionary().StringTable().At(int(one.SampleType().TypeStrindex()))
				say("otlp %s %s %d %d %x", service.AsString(), kind, one.Time(), one.DurationNano(), id[:])
				for _, sample := range one.Samples().All() {
					say("otlp-sample %d %s", total(sample), stack(profiles.Dictionary(), sample.StackIndex()))
				}
			}
		}
	}
}

func total(sample pprofile.Sample) int64 {
	sum := int64(0)
	for _, value := range sample.Values().All() {
		sum += value
	}
	return sum
}

// Returns the names of a stack, from the root.
func stack(dictionary pprofile.ProfilesDictionary, at int32) string {
	names := []string{}
	for _, location := range dictionary.StackTable().At(int(at)).LocationIndices().All() {
		for _, line := range dictionary.LocationTable().At(int(location)).Lines().All() {
			function := dictionary.FunctionTable().At(int(line.FunctionIndex()))
			names = append([]string{dictionary.StringTable().At(int(function.NameStrindex()))}, names...)
		}
	}
	return strings.Join(names, ";")
}
