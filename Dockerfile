# The tool in an image that has nothing else:
#
#   docker buildx build -t ringfold .
#   docker buildx build --platform linux/arm64 -t ringfold:arm64 .
#   docker run --rm ringfold demo --simulate
#
# Go builds for any architecture on this machine's: nothing is emulated.

FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
# A layer that Docker keeps until one of these files changes.
COPY go.mod go.sum ./
COPY perfbuf/promperf/go.mod perfbuf/promperf/go.sum perfbuf/promperf/
COPY cmd/ringfold/go.mod cmd/ringfold/go.sum cmd/ringfold/
RUN go -C cmd/ringfold mod download
COPY . .
ARG TARGETARCH
RUN CGO_ENABLED=0 GOARCH=$TARGETARCH go -C cmd/ringfold build -trimpath -o /ringfold .

FROM scratch
COPY --from=build /ringfold /
ENTRYPOINT ["/ringfold"]
