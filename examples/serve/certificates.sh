#!/usr/bin/env bash
# Certificates to try TLS with (docs/guide/serve.md): an authority, a server (localhost) and a client (alice), in the folders `pki` and `client`.
# Names must be in subjectAltName; version 1 certificates, which `openssl x509 -req` makes without extensions, are refused.
set -euo pipefail
mkdir -p pki client
cd pki
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj /CN=authority -keyout ca-key.pem -out ca-cert.pem \
        -addext keyUsage=critical,keyCertSign,cRLSign
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 365 -subj /CN=server -CA ca-cert.pem -CAkey ca-key.pem \
        -addext basicConstraints=critical,CA:false -addext extendedKeyUsage=serverAuth -addext subjectAltName=DNS:localhost,IP:127.0.0.1 \
        -keyout server-key.pem -out server-cert.pem
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 365 -subj /CN=alice -CA ca-cert.pem -CAkey ca-key.pem \
        -addext basicConstraints=critical,CA:false -addext extendedKeyUsage=clientAuth -keyout ../client/client-key.pem -out ../client/client-cert.pem
cp ca-cert.pem ../client/
