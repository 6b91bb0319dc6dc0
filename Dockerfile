# The programs alone: docker build -t acode .
# Run a plan with: docker run --rm -it -v "$PWD:/work" -v acode:/var/lib/acode acode acode run plan.yml
FROM golang:1.26.5-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN make build

FROM alpine:3.22.1
# A new volume takes over owner and mode of this directory.
RUN addgroup -g 1000 acode && adduser -D -u 1000 -G acode acode && install -d -m 0700 -o acode -g acode /var/lib/acode
COPY --from=build /src/bin/acode /src/bin/acode-sync /src/bin/acode-agent /usr/local/bin/
ENV ACODE_HOME=/var/lib/acode ACODE_CONFIG=/etc/acode/config.yml
USER acode
WORKDIR /work
CMD ["acode", "syncer"]
