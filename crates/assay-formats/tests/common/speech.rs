//! Files of speech models and recordings, made byte by byte.

fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u16 + 1).to_le_bytes()[..], text.as_bytes(), &[0]].concat()
}

/// A variable of a CTranslate2 model.
pub fn variable(name: &str, extents: &[u32], kind: u8, data: &[u8]) -> Vec<u8> {
    let mut bytes = string(name);
    bytes.push(extents.len() as u8);
    bytes.extend(extents.iter().flat_map(|extent| extent.to_le_bytes()));
    bytes.push(kind);
    bytes.extend((data.len() as u32).to_le_bytes());
    bytes.extend(data);
    bytes
}

/// A CTranslate2 model with these variables and aliases.
pub fn ctranslate2(version: u32, variables: &[Vec<u8>], aliases: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = version.to_le_bytes().to_vec();
    bytes.extend(string("WhisperSpec"));
    bytes.extend(3_u32.to_le_bytes());
    bytes.extend((variables.len() as u32).to_le_bytes());
    bytes.extend(variables.concat());
    bytes.extend((aliases.len() as u32).to_le_bytes());
    for (alias, target) in aliases {
        bytes.extend(string(alias));
        bytes.extend(string(target));
    }
    bytes
}

/// A sound model of three variables and an alias.
pub fn sound_ctranslate2() -> Vec<u8> {
    ctranslate2(
        6,
        &[
            variable("encoder/conv1/weight", &[2, 3], 4, &[1; 12]),
            variable("decoder/num_heads", &[], 2, &[6, 0]),
            variable("decoder/embeddings/weight", &[2, 2], 0, &[2; 16]),
        ],
        &[("decoder/projection/weight", "decoder/embeddings/weight")],
    )
}

/// A tensor of a ggml file, extents fastest first.
pub fn ggml_tensor(name: &str, extents: &[u32], kind: u32, data: &[u8]) -> Vec<u8> {
    let head = [extents.len() as u32, name.len() as u32, kind];
    let mut bytes: Vec<u8> = head.iter().flat_map(|number| number.to_le_bytes()).collect();
    bytes.extend(extents.iter().flat_map(|extent| extent.to_le_bytes()));
    bytes.extend(name.as_bytes());
    bytes.extend(data);
    bytes
}

/// A sound file of whisper.cpp with two tokens and two tensors.
pub fn sound_ggml_whisper() -> Vec<u8> {
    let head = [0x6767_6d6c_u32, 51_865, 1_500, 384, 6, 4, 448, 384, 6, 4, 80, 1, 2, 3];
    let mut bytes: Vec<u8> = head.iter().flat_map(|number| number.to_le_bytes()).collect();
    bytes.extend([0; 2 * 3 * 4]);
    bytes.extend(2_u32.to_le_bytes());
    for token in [&b"a"[..], b"\xff\xfe"] {
        bytes.extend((token.len() as u32).to_le_bytes());
        bytes.extend(token);
    }
    bytes.extend(ggml_tensor("encoder.conv1.bias", &[1, 4], 0, &[1; 16]));
    bytes.extend(ggml_tensor("decoder.token_embedding.weight", &[3, 2], 1, &[2; 12]));
    bytes
}

/// A WAV file of this format tag, bits, channels and rate.
pub fn wav(tag: u16, bits: u16, channels: u16, rate: u32, data: &[u8]) -> Vec<u8> {
    let frame = channels * bits / 8;
    let mut bytes = b"RIFF".to_vec();
    bytes.extend((36 + data.len() as u32).to_le_bytes());
    bytes.extend(b"WAVEfmt ");
    bytes.extend(16_u32.to_le_bytes());
    bytes.extend(tag.to_le_bytes());
    bytes.extend(channels.to_le_bytes());
    bytes.extend(rate.to_le_bytes());
    bytes.extend((rate * u32::from(frame)).to_le_bytes());
    bytes.extend(frame.to_le_bytes());
    bytes.extend(bits.to_le_bytes());
    bytes.extend(b"data");
    bytes.extend((data.len() as u32).to_le_bytes());
    bytes.extend(data);
    bytes
}

/// The first example of RFC 9639 (appendix D.1): two channels of one sample each, 25588 and 10416.
pub fn flac() -> Vec<u8> {
    vec![
        0x66, 0x4c, 0x61, 0x43, 0x80, 0x00, 0x00, 0x22, 0x10, 0x00, 0x10, 0x00, 0x00, 0x00, 0x0f,
        0x00, 0x00, 0x0f, 0x0a, 0xc4, 0x42, 0xf0, 0x00, 0x00, 0x00, 0x01, 0x3e, 0x84, 0xb4, 0x18,
        0x07, 0xdc, 0x69, 0x03, 0x07, 0x58, 0x6a, 0x3d, 0xad, 0x1a, 0x2e, 0x0f, 0xff, 0xf8, 0x69,
        0x18, 0x00, 0x00, 0xbf, 0x03, 0x58, 0xfd, 0x03, 0x12, 0x8b, 0xaa, 0x9a,
    ]
}
