// Every way @connectrpc/connect-node can speak to the daemon.

import type { Interceptor, Transport } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport, createGrpcWebTransport } from "@connectrpc/connect-node";
import { TOKEN } from "./harness.ts";

/** Adds the bearer to every call. */
export function bearer(token: string): Interceptor {
  return (next) => (request) => {
    request.header.set("Authorization", `Bearer ${token}`);
    return next(request);
  };
}

type Make = (baseUrl: string, interceptors?: Interceptor[]) => Transport;

const withToken = [bearer(TOKEN)];

export const TRANSPORTS: Record<string, Make> = {
  "Connect JSON, HTTP/1.1": (baseUrl, interceptors = withToken) =>
    createConnectTransport({ baseUrl, httpVersion: "1.1", useBinaryFormat: false, interceptors }),
  "Connect JSON, HTTP/2": (baseUrl, interceptors = withToken) =>
    createConnectTransport({ baseUrl, httpVersion: "2", useBinaryFormat: false, interceptors }),
  "Connect binary, HTTP/1.1": (baseUrl, interceptors = withToken) =>
    createConnectTransport({ baseUrl, httpVersion: "1.1", useBinaryFormat: true, interceptors }),
  "Connect binary, HTTP/2": (baseUrl, interceptors = withToken) =>
    createConnectTransport({ baseUrl, httpVersion: "2", useBinaryFormat: true, interceptors }),
  "gRPC binary": (baseUrl, interceptors = withToken) =>
    createGrpcTransport({ baseUrl, useBinaryFormat: true, interceptors }),
  "gRPC JSON": (baseUrl, interceptors = withToken) =>
    createGrpcTransport({ baseUrl, useBinaryFormat: false, interceptors }),
  "gRPC-Web binary, HTTP/1.1": (baseUrl, interceptors = withToken) =>
    createGrpcWebTransport({ baseUrl, httpVersion: "1.1", useBinaryFormat: true, interceptors }),
  "gRPC-Web binary, HTTP/2": (baseUrl, interceptors = withToken) =>
    createGrpcWebTransport({ baseUrl, httpVersion: "2", useBinaryFormat: true, interceptors }),
  "gRPC-Web JSON, HTTP/1.1": (baseUrl, interceptors = withToken) =>
    createGrpcWebTransport({ baseUrl, httpVersion: "1.1", useBinaryFormat: false, interceptors }),
};
