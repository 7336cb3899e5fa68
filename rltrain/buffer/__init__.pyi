from rltrain.buffer.episode import EpisodeBuffer as EpisodeBuffer
from rltrain.buffer.on_policy import OnPolicyBuffer as OnPolicyBuffer
from rltrain.buffer.replay import ReplayBuffer as ReplayBuffer
