// Command proto generates the Go code of the protocol buffers in a folder. It compiles them in Go,
// without protoc:
//
//	go run -modfile=.tools/go.mod .ci/proto.go translate/macpmode/macpv1
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/cmd/protoc-gen-go/internal_gengo"
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	for _, folder := range os.Args[1:] {
		if err := generate(folder); err != nil {
			fmt.Fprintf(os.Stderr, "proto: %s: %v\n", folder, err)
			os.Exit(1)
		}
	}
}

// generate writes the code next to each .proto file of a folder.
func generate(folder string) error {
	paths, err := filepath.Glob(filepath.Join(folder, "*.proto"))
	if err != nil {
		return err
	}
	request := &pluginpb.CodeGeneratorRequest{Parameter: proto.String("paths=source_relative")}
	for _, path := range paths {
		request.FileToGenerate = append(request.FileToGenerate, filepath.Base(path))
	}
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{folder}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(context.Background(), request.FileToGenerate...)
	if err != nil {
		return err
	}
	for _, file := range files {
		request.ProtoFile = append(request.ProtoFile, descriptor(file))
	}
	plugin, err := protogen.Options{}.New(request)
	if err != nil {
		return err
	}
	for _, file := range plugin.Files {
		internal_gengo.GenerateFile(plugin, file)
	}
	for _, file := range plugin.Response().GetFile() {
		if err := os.WriteFile(filepath.Join(folder, filepath.Base(file.GetName())), []byte(file.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// descriptor returns a compiled file as input for a plugin of protoc.
func descriptor(file protoreflect.FileDescriptor) *descriptorpb.FileDescriptorProto {
	return protodesc.ToFileDescriptorProto(file)
}
