# rltrain on the CPU: docker build -t rltrain . && docker run --rm -v "$PWD/outputs:/runs/outputs" rltrain env=cartpole
FROM python:3.12-slim

RUN useradd --create-home --uid 1000 rltrain && mkdir /runs && chown rltrain /runs
COPY . /src
RUN pip install --no-cache-dir --index-url https://download.pytorch.org/whl/cpu \
        "$(grep '^torch==' /src/constraints.txt)" && \
    pip install --no-cache-dir -c /src/constraints.txt /src && \
    rm -rf /src

USER 1000
WORKDIR /runs
# Compile the kernels once, into the image.
RUN python -m rltrain.battles && python -m rltrain.env.games && \
    python -m rltrain.kernels && python -m rltrain.buffer
VOLUME /runs/outputs
ENTRYPOINT ["rltrain"]
CMD ["--help"]
