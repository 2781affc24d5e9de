// The calls of an application in envelope mode, by the client that oapi-codegen makes of the OpenAPI document.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"os"

	"generated/client"
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	ctx := context.Background()
	authorize := func(_ context.Context, request *http.Request) error {
		request.Header.Set("Authorization", "Bearer "+os.Getenv("EAAS_API_KEY"))
		return nil
	}
	eaas := must(client.NewClientWithResponses(os.Getenv("EAAS_URL"), client.WithRequestEditorFn(authorize)))

	key := must(eaas.CreateKeyWithResponse(ctx, client.CreateKey{Name: "go"})).JSON201
	dek := make([]byte, 32)
	must(rand.Read(dek))
	wrapped := must(eaas.WrapWithResponse(ctx, key.Id, client.Wrap{Dek: dek})).JSON200
	unwrapped := must(eaas.UnwrapWithResponse(ctx, key.Id, client.Unwrap{WrappedKey: wrapped.WrappedKey})).JSON200
	hashed := must(eaas.HashWithResponse(ctx, client.Hash{KeyId: key.Id.String(), Value: "ada"})).JSON200
	limit := 10
	listed := must(eaas.ListAuditWithResponse(ctx, &client.ListAuditParams{KeyId: &key.Id, Limit: &limit})).JSON200
	taken := must(eaas.CreateKeyWithResponse(ctx, client.CreateKey{Name: "go"})).ApplicationproblemJSON409

	fmt.Println(bytes.Equal(unwrapped.Dek, dek), len(hashed.Hash), taken.Code)
	for _, entry := range listed.Logs {
		fmt.Println(entry.Action, *entry.KeyVersion)
	}
}
